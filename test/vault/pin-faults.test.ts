import { beforeAll, describe, expect, it } from '@jest/globals'
import { allOf } from '../support/all-of.js'
import { askWithFault } from '../support/vault-faults.js'

const faults = ['refuses', 'answers 503', 'cuts off'] as const
const verbs = ['POST new', 'PUT key', 'DELETE key', 'GET lost'] as const
const cases = faults.flatMap((fault) => verbs.map((verb) => ({ fault, verb })))

describe('a vault whose IPFS node fails', () => {
  let outcomes: unknown[] = []
  // What failed is tried again after a second or more.
  beforeAll(async () => {
    outcomes = await allOf(cases, ({ fault, verb }) => askWithFault(fault, verb))
  }, 300_000)

  it.each(cases.map(({ fault, verb }, place) => [fault, verb, place] as const))(
    'answers as documented within 11 s, and is in step again when the node is well: %s, %s',
    (_fault, _verb, place) => {
      expect(outcomes[place]).toMatchObject({ wrong: [] })
      expect((outcomes[place] as { milliseconds: number }).milliseconds).toBeLessThan(11_000)
    }
  )
})
