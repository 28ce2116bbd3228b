// @openai/agents-realtime over its WebSocket transport, all settings its own.

import { setTimeout as sleep } from 'node:timers/promises';

import { OpenAIRealtimeWebSocket, RealtimeAgent, RealtimeSession, tool } from '@openai/agents-realtime';
import { z } from 'zod';

import {
  ALOUD,
  BARGE_IN,
  BYTES_PER_MS,
  FULL_DUPLEX,
  HEARD_MS,
  MODEL,
  Received,
  SMALL_TALK,
  SPOKEN_TURN,
  STORY_REQUEST,
  WEATHER,
  WEATHER_QUESTION,
  report,
} from './dialogue.mjs';
import { Microphone } from './microphone.mjs';

const calls = [];
const getWeather = tool({
  name: 'get_weather',
  description: 'Returns the weather in a city.',
  parameters: z.object({ city: z.string() }),
  execute: async (given) => {
    calls.push(given);
    return WEATHER;
  },
});
const agent = new RealtimeAgent({ name: 'Assistant', instructions: 'Be brief.', tools: [getWeather] });
const url = `${process.env.GATEWAY_URL.replace('http', 'ws')}/realtime?model=${MODEL}`;
const session = new RealtimeSession(agent, { transport: new OpenAIRealtimeWebSocket({ url }) });

const received = new Received();
session.on('transport_event', (event) => received.add(event));
for (const name of ['agent_start', 'agent_end', 'agent_tool_end', 'audio_interrupted']) {
  session.on(name, (...details) => received.add({ type: name, details }));
}
session.on('audio', ({ data }) => received.add({ type: 'audio', bytes: data.byteLength }));
let refusalsExpected = false;
session.on('error', ({ error }) => {
  if (refusalsExpected) received.add({ type: 'refused', code: error.error.code });
  else throw error instanceof Error ? error : new Error(JSON.stringify(error));
});

/** Resolves with what the agent said in its next turn that says anything: one that calls a tool does not. */
const reply = async (from) => {
  const end = await received.until((event) => event.type === 'agent_end' && event.details.at(-1), from);
  return end.details.at(-1);
};
/** Asks in writing, or begins to ask aloud; returns from where on to look for the answer. */
const ask = async (text) => {
  if (FULL_DUPLEX) {
    await sleep(HEARD_MS); // or the SDK would not be sure that the agent's last words were heard
    microphone.say(ALOUD[text]);
  } else session.sendMessage(text);
  return received.all.length;
};
const saidLast = (role) => session.history.findLast((item) => item.role === role)?.content[0];

// `session.created` may come with the handshake's last packet on loopback, never over a network. The SDK then asks for
// tracing before it sends its settings. Held back until it has, so that the record is always the same.
const { transport } = session;
transport.once('connection_change', () =>
  transport.once('connection_change', () => transport.connectionState.websocket.pause()),
);
await session.connect({ apiKey: process.env.GATEWAY_KEY });
transport.connectionState.websocket.resume();
report('connected', { model: (await received.until('session.updated', 0)).session.model });
const microphone = new Microphone((chunk) =>
  session.sendAudio(chunk.buffer.slice(chunk.byteOffset, chunk.byteOffset + chunk.length)),
);

{
  const from = received.all.length;
  await microphone.say(SPOKEN_TURN);
  // It asks for the item once the transcript is there, and keeps what it gets.
  await received.until('conversation.item.retrieved', from);
  const text = await reply(from);
  const bytes = received.of('audio', from).reduce((total, event) => total + event.bytes, 0);
  report('spoken_turn', {
    heard: saidLast('user').transcript,
    reply: text,
    audio_ms: Math.round(bytes / BYTES_PER_MS),
  });
}
{
  const from = await ask(WEATHER_QUESTION);
  const [, , called] = (await received.until('agent_tool_end', from)).details;
  const text = await reply(from); // the SDK has sent the result and asked for a response
  report('tool', { name: called.name, arguments: calls.at(-1), reply: text });
}
{
  await received.until('audio', await ask(STORY_REQUEST));
  await sleep(HEARD_MS);
  const from = received.all.length;
  await microphone.say(BARGE_IN);
  await received.until('audio_interrupted', from); // it has sent its truncate
  const { response } = await received.until('response.done', from);
  const next = received.all.length;
  const text = await reply(received.all.indexOf(await received.until('agent_start', next)));
  report('barge_in', {
    cancelled: response.status === 'cancelled' && response.status_details.reason === 'turn_detected',
    heard: saidLast('user').transcript,
    reply: text,
  });
}
if (FULL_DUPLEX) {
  refusalsExpected = true;
  const from = received.all.length;
  session.sendMessage(SMALL_TALK);
  const { code } = await received.until('refused', from);
  await reply(from); // which the SDK has asked for, too
  refusalsExpected = false;
  report('typed', { refused: [code] });
}
{
  const from = await ask(STORY_REQUEST);
  await received.until('audio', from);
  await sleep(HEARD_MS);
  session.interrupt(); // sends response.cancel and a truncate
  const { status, status_details: details } = (await received.until('response.done', from)).response;
  await received.until('conversation.item.retrieved', from);
  report('cancel', { status, reason: details.reason });
}
{
  const from = await ask(SMALL_TALK);
  await received.until('audio', from);
  await sleep(HEARD_MS);
  session.interrupt(); // how much was heard, its own clock says
  const truncated = await received.until('conversation.item.truncated', from);
  const kept = (event) => event.type === 'conversation.item.retrieved' && event.item.id === truncated.item_id;
  await received.until(kept, from);
  report('truncate', {
    // What a full-duplex model says comes as it is spoken: of the last frames the SDK may know nothing yet.
    ok: truncated.audio_end_ms >= HEARD_MS - (FULL_DUPLEX ? 200 : 1),
    transcript: saidLast('assistant')?.transcript,
  });
}
await received.until('audio', await ask(STORY_REQUEST));
await microphone.close();
report('left');
transport.connectionState.websocket.terminate();
