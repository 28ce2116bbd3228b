// openai-node's beta class over the WebSocket that Node and browsers have; wss: only, as its successor.

import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/beta/realtime/websocket';

import { MODEL } from './dialogue.mjs';
import { BETA, dialogue } from './openai_node_dialogue.mjs';

const client = new OpenAI({ apiKey: process.env.GATEWAY_KEY, baseURL: process.env.GATEWAY_URL });
const rt = new OpenAIRealtimeWebSocket({ model: MODEL }, client);
await dialogue(rt, BETA, () => process.exit());
