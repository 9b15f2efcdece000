import { beforeAll, describe, expect, it } from '@jest/globals'
import { getAddress, Wallet } from 'ethers'
import { decodeJwt } from 'jose5'
import request from 'supertest'
import { checksumAddress as viemChecksumAddress } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { requestLoginChallenge } from '../support/servers/app-client.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { checksumAddress, createNumberedWallet } from '../support/fixtures/fixtures.js'

const { privateKey, address } = createNumberedWallet(4242)
const bare = address.slice(2)

let app: TestApp

beforeAll(async () => {
  app = await testApp({ maxRequestsPerTimeSlot: 1_000 })
})

type PersonalSign = (message: string) => Promise<string>

const wallets: Record<string, PersonalSign> = {
  ethers: (message) => new Wallet(privateKey).signMessage(message),
  viem: (message) => privateKeyToAccount(privateKey as `0x${string}`).signMessage({ message })
}

const spellings: [string, string][] = [
  ['lower case', `0x${bare.toLowerCase()}`],
  ['upper case', `0x${bare.toUpperCase()}`],
  ['upper case, the x as well', `0X${bare.toUpperCase()}`],
  ['EIP-55', checksumAddress(address)],
  ['EIP-1191 for chain 30', checksumAddress(address, 30)],
  ['EIP-1191 for chain 31', checksumAddress(address, 31)]
]

const prefixes = ['did:ethr', 'did:ethr:rsk', 'did:ethr:rsk:testnet', 'did:ethr:sepolia', 'did:ethr:0x1e']

/** Logs in and answers status and, for 200, the `sub` of the access token and the user of a guarded route. */
async function enter(did: string, personalSign: PersonalSign): Promise<unknown[]> {
  const challenge = await requestLoginChallenge(app.app, did)
  const sig = await personalSign(`Login to service.example\nVerification code: ${challenge}`)
  const response = await request(app.app).post('/auth').send({ did, sig })
  if (response.status !== 200) return [response.status, response.text]
  const { accessToken } = response.body as { accessToken: string }
  const me = await request(app.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)
  return [200, decodeJwt(accessToken).sub, (me.body as { user: { did: string } }).user.did]
}

describe('the spellings in these tests', () => {
  it('are those of ethers and viem', () => {
    expect(checksumAddress(address)).toBe(getAddress(address))
    expect(checksumAddress(address, 30)).toBe(viemChecksumAddress(address as `0x${string}`, 30))
    expect(checksumAddress(address, 31)).toBe(viemChecksumAddress(address as `0x${string}`, 31))
    expect(new Set(spellings.map(([, spelled]) => spelled)).size).toBe(6)
  })

  it('belong to wallets whose addresses and signatures are those of ethers', async () => {
    for (const number of [1, 4242, 7777]) {
      const wallet = createNumberedWallet(number)
      const ethersWallet = new Wallet(wallet.privateKey)
      expect(wallet.address).toBe(ethersWallet.address)
      expect(wallet.personalSign('é 💥\n')).toBe(await ethersWallet.signMessage('é 💥\n'))
    }
  })

  it('are those of the examples in EIP-1191', () => {
    const example = '0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed'
    expect(checksumAddress(example)).toBe('0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed')
    expect(checksumAddress(example, 30)).toBe('0x5aaEB6053f3e94c9b9a09f33669435E7ef1bEAeD')
    expect(checksumAddress(example, 31)).toBe('0x5aAeb6053F3e94c9b9A09F33669435E7EF1BEaEd')
  })
})

describe.each(Object.entries(wallets))('a message signed by %s', (_name, personalSign) => {
  it.each(spellings)('logs in a DID in %s, and the spelling is preserved', async (_spelling, spelled) => {
    for (const prefix of prefixes) {
      const did = `${prefix}:${spelled}`
      expect(await enter(did, personalSign)).toEqual([200, did, did])
    }
  })

  it('does not log in another address', async () => {
    expect(await enter(createNumberedWallet(4243).did, personalSign)).toEqual([401, 'Invalid challenge response'])
  })
})

// `confirmAuth` of @rsksmart/rlogin, from 1.0.2 to 1.6.1: the URL of the service as it was given, at /signup, in
// `response`.
describe('the login of rLogin 1.0 to 1.6', () => {
  const did = createNumberedWallet(4242).did

  const confirmAuth = async ({ app: service }: TestApp, backendUrl: string, path = '/signup'): Promise<number> => {
    const response = await request(service).get(`${path === '/auth' ? '/request-auth' : '/request-signup'}/${did}`)
    const { challenge } = response.body as { challenge: string }
    const sig = await wallets.viem!(`URL: ${backendUrl}\nVerification code: ${challenge}`)
    return (
      await request(service)
        .post(path)
        .send({ response: { sig, did, sd: undefined } })
    ).status
  }

  it('succeeds if loginDialects has url, with the URL and with the domain', async () => {
    const service = await testApp({ loginDialects: ['login', 'url'] })
    expect(await confirmAuth(service, 'https://service.example')).toBe(200)
    expect(await confirmAuth(service, 'service.example', '/auth')).toBe(200)
    expect(await confirmAuth(service, 'https://other.example')).toBe(401)
  })

  it('is refused by default', async () => {
    expect(await confirmAuth(app, 'https://service.example')).toBe(401)
  })
})
