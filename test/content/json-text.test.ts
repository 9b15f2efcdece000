import { describe, expect, it, jest } from '@jest/globals'
import fc from 'fast-check'
import { jsonOf, textInBody } from '../../servers/shared/upload/json-text.js'

/** What plain JSON makes of a body: its text, undefined, or `throws`. */
function expectedOf(body: Buffer): string | undefined {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    return 'throws'
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const text = Object.hasOwn(value, 'file') ? (value as { file: unknown }).file : undefined
  return typeof text === 'string' && !/\p{Surrogate}/u.test(text) ? `text ${text}` : undefined
}

function answeredFor(body: Buffer): string | undefined {
  try {
    const text = textInBody(body, 'file')
    if (text === undefined) return undefined
    expect(text.json.toString()).toBe(JSON.stringify(text.bytes.toString()))
    return `text ${text.bytes.toString()}`
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return 'throws'
  }
}

/** The same bytes, beginning `offset` bytes after a multiple of eight. */
function misaligned(bytes: Buffer, offset: number): Buffer {
  const room = Buffer.from(new ArrayBuffer(bytes.length + offset + 3))
  bytes.copy(room, offset)
  return room.subarray(offset, offset + bytes.length)
}

const wildText = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'binary-ascii', maxLength: 40 }),
  // Lone surrogates as well.
  fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 20 }).map((units) => String.fromCharCode(...units))
)

const spelled = wildText.chain((text) =>
  fc.array(fc.integer({ min: 0, max: 2 }), { minLength: text.length, maxLength: text.length }).map((hows) =>
    [...hows].map((how, index) => {
      const unit = text.charAt(index)
      const hex = unit.charCodeAt(0).toString(16).padStart(4, '0')
      return how === 0 ? unit : how === 1 ? JSON.stringify(unit).slice(1, -1) : `\\u${hex}`
    })
  )
)

const bodies = fc.oneof(
  wildText.map((text) => `{"file":${JSON.stringify(text)}}`),
  spelled.map((units) => `{"file":"${units.join('')}"}`),
  fc.tuple(wildText, wildText).map(([one, two]) => `{"file":${JSON.stringify(one)},"file":${JSON.stringify(two)}}`),
  fc.json().map((json) => `{"file":${json}}`),
  fc.json(),
  fc
    .tuple(wildText, fc.constantFrom(' ', '\n', '\t'))
    .map(([text, space]) => `${space}{"file" : ${JSON.stringify(text)}}`)
)

describe('textInBody', () => {
  it('reads what JSON.parse reads, in any alignment', () => {
    fc.assert(
      fc.property(bodies, fc.nat(7), (body, offset) => {
        const bytes = misaligned(Buffer.from(body), offset)
        expect(answeredFor(bytes)).toBe(expectedOf(bytes))
      }),
      { numRuns: 10_000 }
    )
  }, 60_000)

  it('reads what JSON.parse reads when bytes are changed, so that it may be no UTF-8 and no JSON', () => {
    const change = fc.tuple(fc.nat(80), fc.nat(255))
    fc.assert(
      fc.property(bodies, fc.array(change, { minLength: 1, maxLength: 3 }), fc.nat(7), (body, changes, offset) => {
        const bytes = misaligned(Buffer.from(body), offset)
        for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value
        expect(answeredFor(bytes)).toBe(expectedOf(bytes))
      }),
      { numRuns: 10_000 }
    )
  }, 60_000)

  it.each([0, 1, 2, 3, 4, 5, 6, 7])('finds a control character at each place, %i bytes off', (offset) => {
    for (let length = 1; length <= 24; length += 1) {
      for (let at = 0; at < length; at += 1) {
        for (const byte of [0x00, 0x0a, 0x1f]) {
          const text = Buffer.alloc(length, 'a')
          text[at] = byte
          const body = Buffer.concat([Buffer.from('{"file":"'), text, Buffer.from('"}')])
          expect(() => textInBody(misaligned(body, offset), 'file')).toThrow(SyntaxError)
        }
      }
    }
  })

  it.each([0x20, 0x7f])('takes %i, which is no control character of JSON, for itself', (byte) => {
    const body = Buffer.concat([Buffer.from('{"file":"'), Buffer.alloc(9, byte), Buffer.from('"}')])
    expect(textInBody(body, 'file')?.bytes).toEqual(Buffer.alloc(9, byte))
  })

  it('does not copy what needs no escape', () => {
    const body = Buffer.from('{"file":"text ü 😀"}')
    const text = textInBody(body, 'file')!
    expect(text.bytes.buffer).toBe(body.buffer)
    expect(text.json.buffer).toBe(body.buffer)
    expect(text.json.toString()).toBe('"text ü 😀"')
  })

  it('reads the field that it is asked for', () => {
    expect(textInBody(Buffer.from('{"content":"a"}'), 'content')?.bytes.toString()).toBe('a')
    expect(textInBody(Buffer.from('{"content":"a"}'), 'file')).toBeUndefined()
    expect(textInBody(Buffer.from('{"a":"1","file":"b"}'), 'file')?.bytes.toString()).toBe('b')
    expect(textInBody(Buffer.from('{"__proto__":{"file":"b"}}'), 'file')).toBeUndefined()
    expect(textInBody(Buffer.from('{}'), 'toString')).toBeUndefined()
  })

  it('reads a text that is escaped all over, with 1 KiB of spaces and 64 strings in all around it', () => {
    const others = Array.from({ length: 31 }, (_, index) => `"${index}":"\\"",`).join('')
    // The braces, a colon for each field and the commas count as well.
    const spaces = ' '.repeat(1_024 - 2 - 32 - 31)
    const body = `{${spaces}${others}"file":"${'\\"'.repeat(5_000)}"}`
    expect(textInBody(Buffer.from(body), 'file')?.bytes.toString()).toBe('"'.repeat(5_000))
    expect(textInBody(Buffer.from(` ${body}`), 'file')).toBeUndefined()
  })

  it.each([
    ['65 strings', `{"file":"a\\n","x":[${Array.from({ length: 62 }, () => '""').join(',')}]}`],
    ['a number without end', `{"file":"a\\n","x":${'1'.repeat(1_100)}}`],
    ['arrays in arrays', `{"file":"a\\n","x":${'['.repeat(600)}${']'.repeat(600)}}`]
  ])('does not parse a body with %s', (_what, body) => {
    expect(textInBody(Buffer.from(body), 'file')).toBeUndefined()
  })

  it.each([
    ['16 million objects', `{"x":[${'{},'.repeat(16_000_000)}{}],"file":"a"}`],
    ['a million fields', `{${Array.from({ length: 1_000_000 }, (_, index) => `"${index}":1,`).join('')}"file":"a"}`]
  ])('is done with %s at once', (_what, text) => {
    const body = Buffer.from(text)
    const parse = jest.spyOn(JSON, 'parse')
    expect(textInBody(body, 'file')).toBeUndefined()
    expect(parse).not.toHaveBeenCalled()
    parse.mockRestore()
  })
})

describe('jsonOf', () => {
  it('writes what JSON.stringify writes, in any alignment', () => {
    const wellFormed = wildText.map((text) => text.toWellFormed())
    fc.assert(
      fc.property(wellFormed, fc.nat(7), (text, offset) => {
        expect(jsonOf(misaligned(Buffer.from(text), offset)).toString()).toBe(JSON.stringify(text))
      }),
      { numRuns: 10_000 }
    )
  }, 60_000)
})
