import { beforeEach, describe, expect, it, jest } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { verifyMessage } from 'ethers'
import express, { type Express } from 'express'
import { memoryStore, setupDidAuth } from 'express-did-auth'
import { signedIn, testConfig, wallet } from 'express-did-auth/testing'
import request from 'supertest'
import { afterTest } from './support/fixtures/after-test.js'
import { createCredentialJwt } from './support/fixtures/credentials.js'
import { root } from './support/fixtures/documents.js'
import { nodeOptions, runExample, scriptFile, setEnvironment } from './support/servers/run-script.js'
import { temporaryFolder } from './support/fixtures/store-folder.js'
import { createLoginText, createNumberedWallet, type TestWallet } from './support/fixtures/fixtures.js'

const alice = wallet('alice')
const issuer = createNumberedWallet(5)
/** The host of the `serviceUrl` that all examples have. */
const DOMAIN = 'localhost:3000'
const day = 86_400

// Examples log to the console, as the library does by default.
beforeEach(() => {
  jest.spyOn(console, 'warn').mockImplementation(() => undefined)
})

/** Runs an example like its README or a user, on a free port. */
async function serve(load: () => Promise<unknown>, environment: Record<string, string> = {}): Promise<Server> {
  afterTest(setEnvironment(environment))
  const example = await runExample(load)
  afterTest(example.stop)
  return example.server
}

async function sign(server: Server, path: string, thirdLine = ''): Promise<object> {
  const { did } = alice
  const asked = await request(server).post(path).send({ did }).expect(200)
  const { challenge } = asked.body as { challenge: string }
  return { did, sig: await alice.signMessage(createLoginText(DOMAIN, challenge) + thirdLine) }
}

describe('examples/', () => {
  const texts = readdirSync(join(root, 'examples'), { withFileTypes: true })
    .filter((entry) => entry.isFile() && !/[.](?:md|svg|webp)$/.test(entry.name))
    .map(({ name: file }) => [file, readFileSync(join(root, 'examples', file), 'utf8')] as const)

  it.each(texts)('%s is short, imports the package by its name, and names no other machine', (file, text) => {
    const most = file === 'quickstart.ts' ? 15 : 59
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(most)
    expect(text).not.toMatch(/\.\.\/(?:src|dist)/)
    const hosts = [...text.matchAll(/https?:\/\/([\w.-]+)/g)].map(([, host]) => host)
    expect(hosts.filter((host) => !/^(?:localhost|127\.0\.0\.1|www\.w3\.org|.*\.example)$/.test(host!))).toEqual([])
  })

  // Express 5 calls it with the error: an app that ignores the error would report success on a port in use.
  it.each(texts.filter(([file, text]) => /[.](?:ts|mjs|cjs)$/.test(file) && /[.]listen\(300\d/.test(text)))(
    '%s, which listens, prints its URL and gives listen() no callback',
    (_file, text) => {
      expect(text).toMatch(/console\.log\('http:\/\/localhost:300\d'\)/)
      expect(text).not.toMatch(/[.]listen\(300\d,/)
    }
  )
})

describe('examples/quickstart.ts', () =>
  it('returns the DID of a wallet that logged in', async () => {
    const server = await serve(() => import('../examples/quickstart.js'))
    const fetch = await signedIn(server, alice)
    expect(await (await fetch('/profile')).json()).toEqual({ did: alice.did })
    await request(server).get('/profile').expect(401, 'Missing access token')
  }))

describe('examples/log-in-siwe.mjs', () => {
  it('logs in with EIP-4361, with the client and by hand', async () => {
    const app = express()
    const server = app.listen(0)
    afterTest(() => server.close())
    const url = `http://localhost:${(server.address() as AddressInfo).port}`
    const requireDid = setupDidAuth(app, { ...testConfig(), serviceUrl: url, siwe: true })
    app.get('/profile', requireDid, (req, res) => res.json(req.user))
    afterTest(setEnvironment({ SERVICE_URL: url }))
    const said: unknown[][] = []
    jest.spyOn(console, 'log').mockImplementation((...words: unknown[]) => void said.push(words))
    await import(join(root, 'examples/log-in-siwe.mjs'))
    expect(said).toEqual([
      ['by the client:', 200, { did: expect.stringMatching(/^did:ethr:rsk:0x[0-9a-f]{40}$/) }],
      ['by hand:', 200, true]
    ])
  })
})

describe('examples/sign-up-with-credentials.ts', () => {
  const nowSeconds = Math.floor(Date.now() / 1000)
  const emailCredential = (by: TestWallet): string =>
    createCredentialJwt(by, alice.did, {
      nbf: nowSeconds - day,
      exp: nowSeconds + day,
      vc: {
        '@context': ['https://www.w3.org/2018/credentials/v1'],
        type: ['VerifiableCredential', 'EmailCredential'],
        credentialSubject: { email: 'alice@example.org' }
      }
    })
  const claims = [{ claimType: 'name', claimValue: 'Alice' }]

  it('signs up users with a credential of a trusted issuer and a name, and no one else', async () => {
    // The example requires credentials and names no RPC: setup warns about the consequences.
    const server = await serve(() => import('../examples/sign-up-with-credentials.js'), { TRUSTED_ISSUERS: issuer.did })
    const signUp = async (credentials: string[]): Promise<{ status: number; text: string }> => {
      const thirdLine = credentials.length === 0 ? '' : `\nMy credentials are: ${credentials.join(',')}`
      const signed = await sign(server, '/request-signup', thirdLine)
      const { status, text } = await request(server)
        .post('/signup')
        .send({ ...signed, credentials, claims })
      return { status, text }
    }
    expect(await signUp([])).toMatchObject({ status: 401, text: 'An e-mail credential and a name please' })
    const stranger = await signUp([emailCredential(createNumberedWallet(6))])
    expect(stranger).toMatchObject({ status: 401, text: 'That issuer is not trusted here' })
    const early = await request(server)
      .post('/auth')
      .send(await sign(server, '/request-auth'))
    expect(early).toMatchObject({ status: 401, text: 'Sign up first' })

    expect(await signUp([emailCredential(issuer)])).toMatchObject({ status: 200 })
    const fetch = await signedIn(server, alice)
    expect(await (await fetch('/profile')).json()).toEqual({ did: alice.did, email: 'alice@example.org' })
  })
})

describe('examples/cookies-and-csrf.ts', () => {
  it('accepts a note from its own page and a trusted origin, and refuses another site', async () => {
    const server = await serve(() => import('../examples/cookies-and-csrf.js'))
    const { headers: own } = await signedIn(server, alice)
    expect(Object.keys(own)).toEqual(['Cookie'])
    const post = async (headers: Record<string, string>): Promise<number> =>
      (await request(server).post('/notes').set(own).set(headers).send({ note: 'Hello' })).status

    expect(await post({ Origin: 'http://localhost:3000', 'Sec-Fetch-Site': 'same-origin' })).toBe(201)
    expect(await post({ Origin: 'https://app.example', 'Sec-Fetch-Site': 'cross-site' })).toBe(201)
    expect(await post({ Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' })).toBe(403)
    expect((await request(server).get('/notes').set(own)).body).toEqual(['Hello', 'Hello'])
  })
})

describe('examples/sqlite-store.ts', () =>
  it('stores sessions in a file, lists them and ends them', async () => {
    const folder = temporaryFolder()
    afterTest(folder.remove)
    const server = await serve(() => import('../examples/sqlite-store.js'), { DATA_DIR: folder.path })
    const { headers } = await signedIn(server, alice)
    await signedIn(server, alice)
    expect((await request(server).get('/sessions').set(headers).expect(200)).body).toHaveLength(2)
    await request(server).delete('/sessions').set(headers).expect(200, { ended: 2 })
    expect(existsSync(join(folder.path, 'sessions.db'))).toBe(true)
  }))

describe('examples/own-store.ts', () => {
  it('satisfies the Store contract', async () => {
    const { contract } = await import('../examples/own-store.js')
    expect(contract.length).toBeGreaterThan(20)
    for (const { run } of contract) await run()
  })

  it('prints every verb', async () => {
    const { measuredStore } = await import('../examples/own-store.js')
    const verbs: string[] = []
    const store = measuredStore(memoryStore(), (verb) => verbs.push(verb))
    await store.ping()
    await store.close()
    expect(verbs).toEqual(['ping', 'close'])
  })
})

describe('examples/map-store.ts', () =>
  it('satisfies the Store contract', async () => {
    const { contract } = await import('../examples/map-store.js')
    expect(contract.length).toBeGreaterThan(50)
    for (const { run } of contract) await run()
  }))

describe('examples/app.mjs', () =>
  it('creates an app that does not listen, and accepts the options of its test', async () => {
    const { makeApp } = (await import(join(root, 'examples/app.mjs'))) as {
      makeApp: (options: object) => Promise<Express>
    }
    const logger = { info: () => undefined, warn: () => undefined, error: () => undefined }
    const app = await makeApp({ errorFormat: 'problem', logger })
    const refused = await request(app).get('/profile').expect(401)
    expect(JSON.parse(refused.text)).toMatchObject({ code: 'ERR_ACCESS_TOKEN_MISSING' })
  }))

describe('examples/second-service.ts', () =>
  it('accepts orders of users who logged in elsewhere, each with their own orders', async () => {
    const { makeApp } = (await import(join(root, 'examples/app.mjs'))) as {
      makeApp: (options: object) => Promise<Express>
    }
    const service = testConfig()
    const app = await makeApp(service)
    const server = await serve(() => import('../examples/second-service.js'), { ISSUER: service.serviceDid })
    for (const user of [alice, wallet('bob')]) {
      const { headers } = await signedIn(app, user)
      const ordered = await request(server).post('/orders').set(headers).send({ order: 'tea' }).expect(200)
      expect(ordered.body).toEqual({ did: user.did, orders: ['tea'] })
    }
    await request(server).get('/orders').expect(401, 'Missing access token')
  }))

describe('examples/login-test.mjs', () => {
  const imports = pathToFileURL(scriptFile('test/support/servers/server-imports.ts')).href
  const run = (...args: string[]): string =>
    execFileSync(process.execPath, [...nodeOptions, '--import', imports, ...args], {
      cwd: root,
      encoding: 'utf8',
      stdio: 'pipe'
    })

  it('passes, and its process exits', () =>
    expect(run('--test-reporter=tap', 'examples/login-test.mjs')).toMatch(/^# pass 1\n# fail 0$/m))
})

describe('examples/wallet.mjs', () => {
  const run = (...args: string[]): string =>
    execFileSync(process.execPath, ['examples/wallet.mjs', ...args], { cwd: root, encoding: 'utf8' }).trim()

  it('prints a DID, and signatures by its key', () => {
    const did = run()
    expect(did).toMatch(/^did:ethr:rsk:0x[0-9a-f]{40}$/)
    const signer = verifyMessage('Login to a\nVerification code: b', run('Login to a\nVerification code: b'))
    expect(`did:ethr:rsk:${signer.toLowerCase()}`).toBe(did)
  })
})

describe('examples/credential.mjs', () => {
  it('prints the credential of a wallet, whose only claim is the challenge', () => {
    const args = ['examples/credential.mjs', 'https://relay.example', 'ab'.repeat(64)]
    const jwt = execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' }).trim()
    const [header, payload] = jwt.split('.').map((part) => Buffer.from(part, 'base64url').toString())
    expect(JSON.parse(header!)).toEqual({ alg: 'ES256K', typ: 'JWT' })
    expect(JSON.parse(payload!)).toEqual({
      iat: expect.any(Number),
      iss: 'did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1',
      aud: 'https://relay.example',
      vc: {
        '@context': ['https://www.w3.org/2018/credentials/v1'],
        type: ['VerifiableCredential'],
        credentialSubject: { claims: [{ claimType: 'challenge', claimValue: 'ab'.repeat(64) }] }
      }
    })
  })
})

describe('examples/demo-seal.ts', () =>
  it('decrypts a text with the key, and not without it', async () => {
    const { seal, unseal } = await import('../examples/demo-seal.js')
    const [one, other] = await Promise.all([seal('ä secret'), seal('ä secret')])
    expect(await unseal(one.sealed, one.key)).toBe('ä secret')
    expect(other.sealed).not.toBe(one.sealed)
    await expect(unseal(one.sealed, other.key)).rejects.toThrow()
    const spoilt = Buffer.from(one.sealed, 'base64url')
    spoilt.writeUInt8(spoilt.at(-1)! ^ 1, spoilt.length - 1)
    await expect(unseal(spoilt.toString('base64url'), one.key)).rejects.toThrow()
  }))
