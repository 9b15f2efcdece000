import type { JsonText } from '../shared/upload/json-text.js'

const OPENING = Buffer.from('{"file":')
const CLOSING = Buffer.from('}')
/** What a slice may keep alive beyond its own length: the headers that arrived together with a short body. */
const SLACK_BYTES = 2_048

/**
 * The whole answer to a GET of a text, `{"file":"…"}`, as it is kept and sent: the body as it was posted where it was
 * spelled in just this way, so that nothing is copied.
 */
export function answerOf({ bytes, json }: JsonText): Buffer {
  const isPartOfBody = json.buffer === bytes.buffer && json.byteOffset === bytes.byteOffset - 1
  const isAlone = json.buffer.byteLength <= json.length + SLACK_BYTES
  if (isPartOfBody && isAlone) {
    return Buffer.from(json.buffer, json.byteOffset - OPENING.length, OPENING.length + json.length + CLOSING.length)
  }
  return answerAround(json)
}

/** As `answerOf`, around a JSON string, in memory of its own: a slice of Node's pool would keep all of it alive. */
export function answerAround(json: Buffer): Buffer {
  const answer = Buffer.allocUnsafeSlow(OPENING.length + json.length + CLOSING.length)
  OPENING.copy(answer)
  json.copy(answer, OPENING.length)
  CLOSING.copy(answer, OPENING.length + json.length)
  return answer
}
