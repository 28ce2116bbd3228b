// What every Node driver says and how it reports it: dialogue.py for the other language.

export const SPOKEN_TURN = 'librivox_0880'; // "he was not an ill disposed young man"
export const BARGE_IN = 'cards_001'; // "ten of clubs"
export const WEATHER_QUESTION = 'What is the weather in Paris?';
export const WEATHER = 'It is sunny in Paris.';
export const STORY_REQUEST = 'Tell me a long story.';
export const SMALL_TALK = 'How are you today?';
export const TRUNCATE_AT_MS = 300;

/** Whether a full-duplex model answers: see dialogue.py. */
export const FULL_DUPLEX = process.env.FULL_DUPLEX === '1';

/** What is spoken instead of a question. */
export const ALOUD = { [WEATHER_QUESTION]: 'cards_002', [STORY_REQUEST]: 'cards_003', [SMALL_TALK]: 'cards_004' };

/** Whether a response is a voice without words. */
export const isNod = ({ status, output }) => {
  const said = output.filter((item) => item.type === 'message').flatMap((item) => item.content);
  return status === 'completed' && said.length > 0 && !said.some((part) => part.transcript);
};

/** How long a reply is heard before it is cut: some of its words whatever the machine is doing, by no means all. */
export const HEARD_MS = 700;

export const MODEL = 'gpt-realtime';
export const BYTES_PER_MS = 48; // 24 kHz, 16 bits, mono

const STEP_DEADLINE_MS = 60_000;

/** Prints a step that was done, and what was seen. */
export function report(step, facts = {}) {
  console.log(JSON.stringify({ step, ...facts }));
}

/** What a client has received, in its order. */
export class Received {
  all = [];
  #waiting = new Set();

  add(event) {
    this.all.push(event);
    for (const look of this.#waiting) look();
  }

  /** Resolves with the first event from index `from` on that has this type, or that this function accepts. */
  until(wanted, from = this.all.length) {
    const accepts = typeof wanted === 'string' ? (event) => event.type === wanted : wanted;
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.all.slice(from).find(accepts);
        if (!found) return;
        clearTimeout(deadline);
        this.#waiting.delete(look);
        resolve(found);
      };
      const giveUp = () => {
        const types = this.all.slice(from).map((event) => event.type);
        const changes = types.filter((type, at) => type !== types[at - 1]);
        reject(new Error(`no ${wanted} within ${STEP_DEADLINE_MS} ms, but ${changes.join(', ')}`));
      };
      const deadline = setTimeout(giveUp, STEP_DEADLINE_MS);
      this.#waiting.add(look);
      look();
    });
  }

  /** Returns the events of one type from index `from` on. */
  of(type, from = 0) {
    return this.all.slice(from).filter((event) => event.type === type);
  }
}
