// openai-node's beta class over the `ws` package: the Realtime API as it was before it was generally available.

import { connect } from 'node:net';

import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/beta/realtime/ws';

import { MODEL } from './dialogue.mjs';
import { BETA, dialogue } from './openai_node_dialogue.mjs';

const client = new OpenAI({ apiKey: process.env.GATEWAY_KEY, baseURL: process.env.GATEWAY_URL });
const plain = { createConnection: ({ host, port }) => connect({ host, port }) };
const options = client.baseURL.startsWith('http:') ? plain : {};
const rt = new OpenAIRealtimeWS({ model: MODEL, options }, client);
await dialogue(rt, BETA, () => rt.socket.terminate());
