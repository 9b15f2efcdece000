import { describe, expect, it } from '@jest/globals'
import express from 'express'
import fc from 'fast-check'
import { negotiateType } from '../../src/fetch/negotiate-type.js'
import { sampled } from '../support/fixtures/time-factor.js'

const PROBLEM = 'application/problem+json'
/** Lists of types for which the endpoints ask. */
const lists = [['text/plain', PROBLEM], [PROBLEM, 'application/json'], ['text/plain']]

/** Returns the choice of Express for a request with this header. */
function askExpress(accept: string | undefined, types: string[]): string | false {
  const req = Object.assign(Object.create(express.request) as express.Request, { headers: { accept } })
  return req.accepts(types)
}

const range = fc
  .tuple(
    fc.constantFrom(
      '*/*',
      'text/*',
      'application/*',
      'text/plain',
      'Text/Plain',
      'application/json',
      PROBLEM,
      'a/b',
      'text'
    ),
    fc.constantFrom('', ';q=0', ';q=0.5', '; q=0.9', ';Q=1', ' ; q=0.001', ';q="0.3"', ';q=', ';q=x', ';q=0.2;q=0.8'),
    fc.constantFrom('', '', '', ';charset=utf-8', ';a="x,y;q=0"', ';a=*', ';a=', ';a')
  )
  .chain(([type, quality, parameter]) => fc.constantFrom(type + quality + parameter, type + parameter + quality))
const header = fc
  .array(range, { maxLength: 5 })
  .chain((ranges) => fc.constantFrom(ranges.join(','), ranges.join(' , '), `${ranges.join(', ')},`))

describe('negotiateType', () => {
  it('chooses as req.accepts of Express does', () =>
    fc.assert(
      fc.property(header, fc.constantFrom(...lists), (accept, types) => {
        expect(negotiateType(accept, types)).toBe(askExpress(accept, types))
      }),
      { numRuns: sampled(300, 3_000) }
    ))

  it.each([[undefined], [''], ['*/*'], ['text/*;q=0.1, text/plain']])('prefers the first type for %p', (accept) =>
    expect(negotiateType(accept, ['text/plain', PROBLEM])).toBe('text/plain')
  )

  it.each([['garbage'], [',;=,'], ['image/png'], ['text/plain;q=0'], ['"'], ['\\']])('accepts none for %p', (accept) =>
    expect(negotiateType(accept, ['text/plain'])).toBe(false)
  )
})
