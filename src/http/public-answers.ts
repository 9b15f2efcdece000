import { CORS_MAX_AGE_SECONDS } from '../config/cors-options.js'
import type { HttpAnswer } from '../http-messages.js'

/** Header of answers that pages of every origin may read. */
export const ALL_ORIGINS = { 'Access-Control-Allow-Origin': '*' }

/**
 * Answers a preflight request to a public route. Clients of MCP send a header with the version of the protocol, for
 * which browsers ask first. The asterisk stands for every header but `Authorization`, which these routes do not read.
 * @see Fetch Standard, CORS protocol
 */
export async function answerPreflight(): Promise<HttpAnswer> {
  const allowed = { 'Access-Control-Allow-Methods': 'GET, HEAD, POST', 'Access-Control-Allow-Headers': '*' }
  return { status: 204, headers: { ...allowed, 'Access-Control-Max-Age': String(CORS_MAX_AGE_SECONDS) } }
}
