import { describe, expect, it } from '@jest/globals'
import { answerOf } from '../../servers/relay/relay-answer.js'
import { textInBody, type JsonText } from '../../servers/shared/upload/json-text.js'

/** The text of a body that lies in memory of so many bytes. */
function textIn(body: string, memoryBytes: number): JsonText {
  const memory = Buffer.alloc(memoryBytes)
  memory.write(body, 100)
  const text = textInBody(memory.subarray(100, 100 + Buffer.byteLength(body)), 'file')
  if (text === undefined) throw new Error('no text')
  return text
}

describe('answerOf', () => {
  it('takes a body as it is, without a copy', () => {
    const text = textIn('{"file":"hello"}', 2_055)
    const answer = answerOf(text)
    expect(String(answer)).toBe('{"file":"hello"}')
    expect(answer.buffer).toBe(text.bytes.buffer)
  })

  it('copies a body that would keep more than 2 KiB beside it in memory', () => {
    const text = textIn('{"file":"hello"}', 2_056)
    const answer = answerOf(text)
    expect(String(answer)).toBe('{"file":"hello"}')
    expect(answer.buffer.byteLength).toBe(16)
  })

  it('copies what is escaped', () => {
    const answer = answerOf(textIn('{"file":"a\\u0062\\n"}', 200))
    expect(String(answer)).toBe('{"file":"ab\\n"}')
    expect(answer.buffer.byteLength).toBe(15)
  })
})
