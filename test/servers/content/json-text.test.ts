import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { JsonTextDecoder } from '../../../servers/content/json-text.js'
import { rounds } from '../../support/fixtures/time-factor.js'

/** Outcome of a body: its text, or the code of its refusal. */
type Outcome = { text: string } | { code: string }

/** Decodes a body that arrives in pieces of these lengths, which repeat. */
function decode(body: string | Buffer, pieceLengths: readonly number[] = [Infinity]): Outcome {
  const bytes = Buffer.from(body)
  const parts: Buffer[] = []
  try {
    const decoder = new JsonTextDecoder('file')
    for (let start = 0, piece = 0; start < bytes.length; piece += 1) {
      const length = pieceLengths[piece % pieceLengths.length]!
      const { isNewValue, parts: decoded } = decoder.write(bytes.subarray(start, start + length))
      if (isNewValue) parts.length = 0
      parts.push(...decoded.map((part) => Buffer.from(part)))
      start += length
    }
    decoder.end()
    return { text: Buffer.concat(parts).toString() }
  } catch (error) {
    return { code: (error as { code: string }).code }
  }
}

/** Returns the outcome that `JSON.parse` gives. */
function computeExpected(body: string | Buffer): Outcome {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(body)))
  } catch {
    return { code: body.length === 0 ? 'ERR_CONTENT' : 'ERR_JSON' }
  }
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  const text = isObject && Object.hasOwn(value as object, 'file') ? (value as { file: unknown }).file : undefined
  if (typeof text !== 'string' || !text.isWellFormed()) return { code: 'ERR_CONTENT' }
  return { text }
}

const lengths = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 })

/** A JSON string in any spelling. */
const spelledString = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 5 }).map((text) => JSON.stringify(text).slice(1, -1)),
      fc.string({ unit: 'binary', maxLength: 3 }).map((text) => JSON.stringify(text).slice(1, -1)),
      fc
        .string({ unit: 'grapheme-ascii', minLength: 60, maxLength: 200 })
        .map((text) => JSON.stringify(text).slice(1, -1)),
      fc.constantFrom(
        '\\n',
        '\\/',
        '\\"',
        '\\\\',
        '\\t',
        '\\u0000',
        '\\u001f',
        '\\u00E9',
        '\\u20ac',
        '\\ud83d\\ude00',
        '\u007f'
      ),
      fc.constantFrom('\\ud83d', '\\ude00', '\\ud83dx', '\\ud83d\\n', '\\ud83d\\ud83d\\ude00', '\ufeff', '\u2028')
    ),
    { maxLength: 8 }
  )
  .map((parts) => `"${parts.join('')}"`)
const space = fc.constantFrom('', '', '', ' ', '\n', '\t\r')
const name = fc.oneof(
  fc.constantFrom('"file"', '"file"', '"\\u0066ile"', '"fil"', '"file2"', '"fil\\u0065\\ud83d"', '"__proto__"', '"0"'),
  spelledString
)
const value = fc.oneof(
  { weight: 4, arbitrary: spelledString },
  { weight: 1, arbitrary: fc.json({ maxDepth: 2 }) },
  { weight: 1, arbitrary: fc.constantFrom('{"file":"inner"}', '["file"]', 'null', '1e5', '-0.5', 'true') }
)
const body = fc
  .array(fc.tuple(space, name, space, space, value, space), { maxLength: 4 })
  .chain((fields) =>
    fc.tuple(space, space).map(([before, after]) => {
      const inner = fields.map(([a, key, b, c, fieldValue, d]) => `${a}${key}${b}:${c}${fieldValue}${d}`).join(',')
      return `${before}{${inner}}${after}`
    })
  )
  .filter((text) => text.length < 1_000)

const concatBytes = (...parts: (string | number[])[]) => Buffer.concat(parts.map((part) => Buffer.from(part as string)))

describe('JsonTextDecoder', () => {
  it.each([
    ['"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00"', '"\\/\b\f\n\r\té😀'],
    ['"\ufefftext\ufeff"', '\ufefftext\ufeff'],
    ['"a","file":"text"', 'text']
  ])('reads the field from {"file":%s}', (json, text) =>
    expect(decode(`\ufeff \r\n{"a":{"file":1},"\\u0066ile" :\t${json},"b":[]} `)).toEqual({ text })
  )

  it.each([
    ['an empty body', ''],
    ['an object without the field', '{}'],
    ['null', '{"file":null}'],
    ['an array', '{"file":["text"]}'],
    ['the field in another object', '{"a":{"file":"text"}}'],
    ['the field in the prototype', '{"__proto__":{"file":"text"}}'],
    ['an array around', '[{"file":"text"}]'],
    ['a string', '"file"'],
    ['the first half of a surrogate pair', '{"file":"\\ud83d"}'],
    ['the second half of a surrogate pair', '{"file":"\\ude00 "}'],
    ['a surrogate pair in the wrong order', '{"file":"\\ude00\\ud83d"}'],
    ['the field twice, the last one a number', '{"file":"text","file":1}']
  ])('refuses %s with ERR_CONTENT', (_what, body) => {
    for (const pieces of [[Infinity], [1]]) expect(decode(body, pieces)).toEqual({ code: 'ERR_CONTENT' })
  })

  it.each([
    ['half an object', '{"file":"text"'],
    ['more than an object', '{"file":"text"}}'],
    ['an unescaped line feed', '{"file":"a\nb"}'],
    ['an escape that JSON does not know', '{"file":"\\x41"}'],
    ['half an escape', '{"file":"\\u00"}'],
    ['single quotes', "{'file':'text'}"],
    ['a byte that UTF-8 does not have', concatBytes('{"file":"a', [0xff], '"}')],
    ['a character cut off', concatBytes('{"file":"', [0xe2, 0x82], '"}')],
    ['a character longer than needed', concatBytes('{"file":"', [0xc0, 0x80], '"}')],
    ['a surrogate in UTF-8', concatBytes('{"file":"', [0xed, 0xa0, 0x80], '"}')],
    ['invalid UTF-8 in another field', concatBytes('{"file":"a","b":"', [0x80], '"}')],
    ['UTF-16', Buffer.from('\ufeff{"file":"text"}', 'utf16le')]
  ])('refuses %s with ERR_JSON', (_what, body) => {
    for (const pieces of [[Infinity], [1]]) expect(decode(body, pieces)).toEqual({ code: 'ERR_JSON' })
  })

  it('reads objects as JSON.parse does, at any chunk boundaries', () =>
    fc.assert(
      fc.property(body, lengths, (text, pieces) => expect(decode(text, pieces)).toEqual(computeExpected(text))),
      { numRuns: rounds(600, 3_000) }
    ))

  it('treats changed, removed or inserted bytes as JSON.parse does', () => {
    const change = fc.record({ at: fc.nat(1_000), drop: fc.nat(2), put: fc.uint8Array({ maxLength: 3 }) })
    const structure = fc.record({
      at: fc.nat(1_000),
      drop: fc.nat(1),
      put: fc
        .constantFrom('"', '\\', '{', '}', '[', ']', ':', ',', '\u0001', '\u00a0', '\ufeff')
        .map((text) => Buffer.from(text))
    })
    fc.assert(
      fc.property(body, fc.oneof(change, structure), lengths, (text, { at, drop, put }, pieces) => {
        const bytes = Buffer.from(text)
        const place = at % (bytes.length + 1)
        const changed = Buffer.concat([bytes.subarray(0, place), put, bytes.subarray(place + drop)])
        expect(decode(changed, pieces)).toEqual(computeExpected(changed))
      }),
      { numRuns: rounds(600, 3_000) }
    )
  })

  describe('a chunk within a long string', () => {
    const CHUNK_BYTES = 16 * 3 + 7
    /** Texts of a number of bytes: the lowest permitted byte, and bytes from 0x80. */
    const fillers = [
      (byteCount: number) => ' '.repeat(byteCount),
      (byteCount: number) => 'é'.repeat(byteCount >> 1) + '\x7f'.repeat(byteCount & 1)
    ]
    /** Starts of the string, after which the chunk begins at each of the four alignments. */
    const starts = ['a'.repeat(7), 'a'.repeat(8), 'a'.repeat(9), 'a'.repeat(10)]
    const decodeAfter = (start: string, chunk: string) =>
      decode(`{"file":"${start}${chunk}"}`, [9 + start.length, CHUNK_BYTES, 2])

    it.each(['\0', '\n', '\x1f'])('is refused with %j at any place, at any alignment', (character) => {
      const accepted = starts.flatMap((start) =>
        fillers.flatMap((fill, filler) =>
          Array.from({ length: CHUNK_BYTES }, (_, place) => place)
            .filter((place) => {
              const outcome = decodeAfter(start, fill(place) + character + fill(CHUNK_BYTES - 1 - place))
              return !('code' in outcome && outcome.code === 'ERR_JSON')
            })
            .map((place) => ({ start, filler, place }))
        )
      )
      expect(accepted).toEqual([])
    })

    it('is accepted without control characters, at any alignment', () => {
      for (const start of starts) {
        for (const fill of fillers) {
          const chunk = fill(CHUNK_BYTES)
          expect(decodeAfter(start, chunk)).toEqual({ text: start + chunk })
        }
      }
    })
  })

  it('reads long texts as JSON.parse does, with escapes close together and far apart', () => {
    const run = fc.tuple(
      fc.integer({ min: 0, max: 3_000 }),
      fc.constantFrom('a', 'é', '€', '😀'),
      fc.constantFrom('\n', '"', '\\', '\u0001', '')
    )
    fc.assert(
      fc.property(
        fc.array(run, { maxLength: 20 }),
        fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1 }),
        (runs, pieces) => {
          const text = runs.map(([length, character, end]) => character.repeat(length) + end).join('')
          expect(decode(JSON.stringify({ file: text }), pieces)).toEqual({ text })
        }
      ),
      { numRuns: 100 }
    )
  })

  it.each([
    ['1,024 characters outside of strings', `{"file":"a"${' '.repeat(1_021)}}`, 'a'],
    ['64 strings', `{"file":"a"${',"b":"c"'.repeat(31)}}`, 'a'],
    ['a megabyte in another string', `{"b":"${'c'.repeat(1_000_000)}","file":"a"}`, 'a']
  ])('accepts %s', (_what, text, content) => expect(decode(text)).toMatchObject({ text: content }))

  it.each([
    ['1,025 characters outside of strings', `{"file":"a"${' '.repeat(1_022)}}`],
    ['65 strings', `{"file":"a","a":["b"${',"c"'.repeat(62)}]}`],
    ['objects without end', '{"a":'.repeat(100_000)]
  ])('refuses %s', (_what, text) => expect(decode(text)).toEqual({ code: 'ERR_CONTENT' }))
})
