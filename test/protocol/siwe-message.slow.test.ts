import { describe, expect, it } from '@jest/globals'
import { getAddress } from 'ethers'
import fc from 'fast-check'
import { createRequire } from 'node:module'
import { parseSiweMessage } from '../../src/protocol/siwe-message.js'
import { judgedMessages } from '../support/fixtures/siwe-messages.js'

/** The part of siwe that is used here; it is installed with the packages of the slow tests. */
interface Siwe {
  SiweMessage: new (fields: object | string) => Record<string, unknown> & { prepareMessage(): string }
}
const { SiweMessage } = createRequire(new URL('../slow/package.json', import.meta.url))('siwe') as Siwe

describe('parseSiweMessage', () =>
  it('parses 1,000 messages of siwe like siwe', () =>
    fc.assert(
      fc.property(judgedMessages, ({ address, issuedAt, expirationTime, notBefore, ...rest }) => {
        const times = {
          issuedAt: issuedAt.toISOString(),
          expirationTime: expirationTime?.toISOString(),
          notBefore: notBefore?.toISOString()
        }
        const text = new SiweMessage({ ...rest, ...times, address: getAddress(address) }).prepareMessage()
        const judged = new SiweMessage(text)
        const ours = parseSiweMessage(text)
        for (const [field, value] of Object.entries(ours)) expect([field, value]).toEqual([field, judged[field]])
        expect(ours).toMatchObject({ domain: rest.domain, nonce: rest.nonce, uri: rest.uri, chainId: rest.chainId })
      }),
      { numRuns: 1_000 }
    )))
