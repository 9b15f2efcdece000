import { describe, expect, it, jest } from '@jest/globals'
import { askWithFault } from '../support/vault-faults.js'

// What failed is tried again after a second or more.
jest.setTimeout(60_000)

const faults = ['refuses', 'answers 503', 'cuts off'] as const
const verbs = ['POST new', 'PUT key', 'DELETE key', 'GET lost'] as const

describe('a vault whose IPFS node fails', () => {
  it.concurrent.each(faults.flatMap((fault) => verbs.map((verb) => [fault, verb] as const)))(
    'answers as documented within 11 s, and is in step again when the node is well: %s, %s',
    async (fault, verb) => {
      const { milliseconds, wrong } = await askWithFault(fault, verb)
      expect(wrong).toEqual([])
      expect(milliseconds).toBeLessThan(11_000)
    }
  )
})
