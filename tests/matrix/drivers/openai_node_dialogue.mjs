// The dialogue of the openai-node drivers, whichever of its classes holds it. How the dialects differ is in `dialect`.

import { setTimeout as sleep } from 'node:timers/promises';

import {
  ALOUD,
  BARGE_IN,
  BYTES_PER_MS,
  FULL_DUPLEX,
  HEARD_MS,
  Received,
  SMALL_TALK,
  SPOKEN_TURN,
  STORY_REQUEST,
  TRUNCATE_AT_MS,
  WEATHER,
  WEATHER_QUESTION,
  isNod,
  report,
} from './dialogue.mjs';
import { Microphone } from './microphone.mjs';

const TRANSCRIPTION_MODEL = 'gpt-4o-mini-transcribe';
const TOOLS = [
  {
    type: 'function',
    name: 'get_weather',
    description: 'Returns the weather in a city.',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
];

/** Realtime as it is: the classes of `openai/realtime`. */
export const GA = {
  audio: 'response.output_audio.delta',
  transcript: 'response.output_audio_transcript.done',
  settings: { type: 'realtime', tools: TOOLS, audio: { input: { transcription: { model: TRANSCRIPTION_MODEL } } } },
};

/** Realtime as it was in beta: the classes of `openai/beta/realtime`. */
export const BETA = {
  audio: 'response.audio.delta',
  transcript: 'response.audio_transcript.done',
  settings: { tools: TOOLS, input_audio_transcription: { model: TRANSCRIPTION_MODEL } },
};

const HEARD = 'conversation.item.input_audio_transcription.completed';
const cut = (id) => ({
  type: 'conversation.item.truncate',
  item_id: id,
  content_index: 0,
  audio_end_ms: TRUNCATE_AT_MS,
});
const durationMs = (base64) => Buffer.from(base64, 'base64').length / BYTES_PER_MS;

/** Holds the dialogue over `rt`, an openai-node connection; `drop` breaks its socket off. */
export async function dialogue(rt, dialect, drop) {
  const received = new Received();
  let refusalsExpected = false;
  rt.on('event', (event) => received.add(event));
  rt.on('error', (error) => {
    // The library tells of an error as such and as an event.
    if (!refusalsExpected) throw error;
  });

  const { session } = await received.until('session.created', 0);
  report('connected', { model: session.model });

  // The library sends nothing of its own. What an application would:
  rt.send({ type: 'session.update', session: dialect.settings });
  await received.until('session.updated', 0);

  const microphone = new Microphone((chunk) =>
    rt.send({ type: 'input_audio_buffer.append', audio: chunk.toString('base64') }),
  );
  /** Asks in writing, or begins to ask aloud; returns from where on to look for the answer. */
  const ask = (text) => {
    if (FULL_DUPLEX) microphone.say(ALOUD[text]);
    else write(text);
    return received.all.length;
  };
  const write = (text) => {
    const item = { type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
    rt.send({ type: 'conversation.item.create', item });
    rt.send({ type: 'response.create' });
  };
  const reply = async (from) => {
    const { response } = await received.until((event) => event.type === 'response.done' && !isNod(event.response), from);
    return { response, text: received.of(dialect.transcript, from).at(-1)?.transcript };
  };

  {
    const from = received.all.length;
    await microphone.say(SPOKEN_TURN);
    const heard = await received.until(HEARD, from);
    const { text } = await reply(from);
    const audio = received.of(dialect.audio, from);
    report('spoken_turn', {
      heard: heard.transcript,
      reply: text,
      audio_ms: Math.round(audio.reduce((total, { delta }) => total + durationMs(delta), 0)),
    });
  }
  {
    const { response } = await reply(ask(WEATHER_QUESTION));
    const call = response.output.find((item) => item.type === 'function_call');
    const from = received.all.length;
    const item = { type: 'function_call_output', call_id: call.call_id, output: WEATHER };
    rt.send({ type: 'conversation.item.create', item });
    rt.send({ type: 'response.create' });
    const { text } = await reply(from);
    report('tool', { name: call.name, arguments: JSON.parse(call.arguments), reply: text });
  }
  {
    const story = await received.until(dialect.audio, ask(STORY_REQUEST));
    await sleep(HEARD_MS);
    const from = received.all.length;
    await microphone.say(BARGE_IN);
    const { response } = await reply(from);
    const next = received.all.length;
    rt.send(cut(story.item_id));
    await received.until('conversation.item.truncated', next);
    const heard = await received.until(HEARD, from);
    const { text } = await reply(next);
    const { status, status_details: details } = response;
    report('barge_in', {
      cancelled: response.id === story.response_id && status === 'cancelled' && details.reason === 'turn_detected',
      heard: heard.transcript,
      reply: text,
    });
  }
  if (FULL_DUPLEX) {
    refusalsExpected = true;
    const from = received.all.length;
    write(SMALL_TALK);
    const { error } = await received.until('error', from);
    await reply(from); // which was asked for, too
    refusalsExpected = false;
    report('typed', { refused: [error.code] });
  }
  {
    const from = ask(STORY_REQUEST);
    await received.until(dialect.audio, from);
    await sleep(HEARD_MS);
    rt.send({ type: 'response.cancel' });
    const { status, status_details: details } = (await reply(from)).response;
    report('cancel', { status, reason: details.reason });
  }
  {
    const from = ask(SMALL_TALK);
    const [{ id }] = (await reply(from)).response.output;
    rt.send(cut(id));
    const truncated = await received.until('conversation.item.truncated', from);
    rt.send({ type: 'conversation.item.retrieve', item_id: id });
    const [part] = (await received.until('conversation.item.retrieved', from)).item.content;
    report('truncate', {
      ok: truncated.audio_end_ms === TRUNCATE_AT_MS && durationMs(part.audio) === TRUNCATE_AT_MS,
      transcript: part.transcript,
    });
  }
  await received.until(dialect.audio, ask(STORY_REQUEST));
  await microphone.close();
  report('left');
  drop();
}
