// openai-node over the WebSocket that Node and browsers have: `OpenAIRealtimeWebSocket`. It refuses all but wss:, so the
// gateway needs a certificate that Node trusts (NODE_EXTRA_CA_CERTS for one of its own making).

import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';

import { MODEL } from './dialogue.mjs';
import { GA, dialogue } from './openai_node_dialogue.mjs';

const client = new OpenAI({ apiKey: process.env.GATEWAY_KEY, baseURL: process.env.GATEWAY_URL });
const rt = new OpenAIRealtimeWebSocket({ model: MODEL }, client);
await dialogue(rt, GA, () => process.exit());
