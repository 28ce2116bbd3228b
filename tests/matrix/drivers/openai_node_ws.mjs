// openai-node over the `ws` package: `OpenAIRealtimeWS`.
//
// It makes every URL a wss: one, whatever the client's baseURL. On a gateway without a certificate `createConnection`
// lays a plain connection under it.

import { connect } from 'node:net';

import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

import { MODEL } from './dialogue.mjs';
import { GA, dialogue } from './openai_node_dialogue.mjs';

const client = new OpenAI({ apiKey: process.env.GATEWAY_KEY, baseURL: process.env.GATEWAY_URL });
const plain = { createConnection: ({ host, port }) => connect({ host, port }) };
const options = client.baseURL.startsWith('http:') ? plain : {};
const rt = new OpenAIRealtimeWS({ model: MODEL, options }, client);
await dialogue(rt, GA, () => rt.socket.terminate());
