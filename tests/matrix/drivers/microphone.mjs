// A microphone of WAV files for the Node drivers: 20 ms of audio at the pace at which it is spoken.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { BYTES_PER_MS } from './dialogue.mjs';

const CHUNK_MS = 20;
const CHUNK_BYTES = CHUNK_MS * BYTES_PER_MS;
const SILENCE = Buffer.alloc(CHUNK_BYTES);

/** Sends silence until it is closed, and in between what it is told to say. */
export class Microphone {
  #send;
  #queue = [];
  #open = true;
  #running;

  /** `send` gets a Buffer of 20 ms at a time. */
  constructor(send) {
    this.#send = send;
    this.#running = this.#run();
  }

  /** Speaks a clip of SPEECH_DIR; resolves when its last sample has left. */
  say(name) {
    const samples = read(name);
    return new Promise((resolve) => {
      for (let at = 0; at < samples.length; at += CHUNK_BYTES) {
        this.#queue.push({ chunk: samples.subarray(at, at + CHUNK_BYTES) });
      }
      this.#queue.at(-1).spoken = resolve;
    });
  }

  close() {
    this.#open = false;
    return this.#running;
  }

  async #run() {
    const start = performance.now();
    for (let sent = 1; this.#open; sent += 1) {
      await sleep(Math.max(0, start + sent * CHUNK_MS - performance.now()));
      const { chunk, spoken } = this.#queue.shift() ?? { chunk: SILENCE };
      if (this.#open) this.#send(chunk);
      spoken?.();
    }
  }
}

/** Returns a clip's samples. */
function read(name) {
  const file = readFileSync(join(process.env.SPEECH_DIR, `${name}.wav`));
  for (let at = 12; at < file.length; at += 8 + file.readUInt32LE(at + 4)) {
    const start = at + 8;
    if (file.toString('latin1', at, at + 4) === 'data') return file.subarray(start, start + file.readUInt32LE(at + 4));
  }
  throw new Error(`${name}.wav has no data`);
}
