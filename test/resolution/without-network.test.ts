import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import net from 'node:net'
import { testApp } from '../support/test-app.js'
import { credentialJwt, signUp } from '../support/credentials.js'
import { walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(5001)

const accepted = [200, '']
const refused = [401, 'Invalid credential']
const unproved = [401, 'Unproved credential issuer']

async function answerTo(credential: string): Promise<[number, string]> {
  const { app, requireDid } = await testApp({ signupBusinessLogic: () => undefined })
  const response = await signUp(app, user, { credentials: [credential] })
  await requireDid.close()
  return [response.status, response.status === 200 ? '' : response.text]
}

describe('POST /signup without rpcUrl and resolver: an issuer', () => {
  const asked: unknown[] = []

  // supertest connects to the application by node:net; whatever else goes out would go through fetch.
  beforeEach(() => {
    asked.length = 0
    jest.spyOn(globalThis, 'fetch').mockImplementation((url) => {
      asked.push(url)
      return Promise.reject(new Error('there is no network'))
    })
    const connect = net.Socket.prototype.connect
    jest.spyOn(net.Socket.prototype, 'connect').mockImplementation(function (this: net.Socket, ...args: unknown[]) {
      const [options] = args.flat() as [{ host?: string }]
      if (options.host !== '127.0.0.1') asked.push(options)
      return Reflect.apply(connect, this, args) as net.Socket
    })
  })

  afterEach(() => {
    jest.restoreAllMocks()
    expect(asked).toEqual([])
  })

  it.each(['did:ethr', 'did:ethr:rsk', 'did:ethr:rsk:testnet', 'did:ethr:sepolia', 'did:ethr:0x5afe'])(
    '%s is proved by its address, with no network at all',
    async (prefix) => {
      const { address, privateKey } = issuer
      for (const spelled of [address, address.toLowerCase(), `0x${address.slice(2).toUpperCase()}`]) {
        expect(await answerTo(credentialJwt({ did: `${prefix}:${spelled}`, privateKey }, user.did))).toEqual(accepted)
      }
    }
  )

  it('did:ethr is not proved by another key', async () => {
    const { privateKey } = walletOf(5002)
    expect(await answerTo(credentialJwt({ did: issuer.did, privateKey }, user.did))).toEqual(refused)
  })

  it.each([
    'did:web:issuer.example',
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'did:ethr:rsk:0x1234'
  ])('%s is unproved: the default networks do not know it', async (did) => {
    expect(await answerTo(credentialJwt({ did, privateKey: issuer.privateKey }, user.did))).toEqual(unproved)
  })
})
