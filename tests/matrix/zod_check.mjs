// Reads server events as @openai/agents-realtime does, and says what it would refuse.
//
//   node zod_check.mjs PACKAGE EVENTS
//
// PACKAGE is the folder of an installed @openai/agents-realtime, EVENTS a file with one server event per line.
// Prints one JSON object per line: {"line", "type", "stage", "problem"} for each refusal, last {"events", "unknown"}:
// how many events were read, and the types that the package does not know at all (it hands those to `*` and does no
// more). Stages: "event" is the schema of the wire, where a refusal makes the package blind to the event; "item" is
// what it makes of the event after that, where a refusal is an exception that nobody catches.

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [packageFolder, eventsFile] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(resolve(packageFolder, 'dist', file)).href);
const { OpenAIRealtimeWebSocket } = await load('index.mjs');
const { realtimeServerEventSchema } = await load('openaiRealtimeEvents.mjs'); // internal: no export leads to it

const known = new Set(realtimeServerEventSchema.options.map((option) => option.shape.type.value));

class Unconnected extends OpenAIRealtimeWebSocket {
  sendEvent() {} // it answers some events, and there is nobody to answer
}

const print = (found) => console.log(JSON.stringify(found));
const words = (error) =>
  error.issues?.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; ') ?? String(error);

const transport = new Unconnected();
transport.on('error', () => {}); // an `error` event is no refusal
const unknown = new Set();
let events = 0;

for (const [index, line] of readFileSync(eventsFile, 'utf8').split('\n').entries()) {
  if (!line) continue;
  events += 1;
  const event = JSON.parse(line);
  const refusal = (stage, problem) => print({ line: index + 1, type: event.type, stage, problem });
  if (!known.has(event.type)) {
    unknown.add(event.type);
    continue;
  }
  const parsed = realtimeServerEventSchema.safeParse(event);
  if (!parsed.success) refusal('event', words(parsed.error));
  try {
    transport._onMessage({ data: line });
  } catch (error) {
    refusal('item', words(error));
  }
}
print({ events, unknown: [...unknown].sort() });
