import { beforeAll, describe, expect, it } from '@jest/globals'
import { build } from 'esbuild'
import { runInNewContext } from 'node:vm'
import { fileURLToPath } from 'node:url'
import request from 'supertest'
import { DidAuthError } from 'express-did-auth'
import { signedIn, wallet } from 'express-did-auth/testing'
import { accessTokenVerifier, type AccessTokenVerifier } from 'express-did-auth/verify'
import { serviceUrl, testApp, type TestApp } from '../support/servers/test-app.js'
import { catchCode } from '../support/fixtures/refusal.js'
import { tokens } from './verdicts.js'
import { serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const clock = { nowSeconds: () => START_SECONDS }
const options = { issuer: serviceWallet.did, audience: serviceUrl, clock }
let app: TestApp
let source: string

beforeAll(async () => {
  app = await testApp({ maxRequestsPerTimeSlot: Infinity })
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL('../../src/verify/index.ts', import.meta.url))],
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'verifier',
    minify: true,
    metafile: true,
    write: false,
    logLevel: 'silent'
  })
  source = outputFiles[0]!.text
  expect(Object.values(metafile.inputs).flatMap(({ imports }) => imports.filter(({ external }) => external))).toEqual(
    []
  )
})

/** The verifier in a context that has what browsers and Workers have, and nothing of Node. */
function bundled(): AccessTokenVerifier {
  const globals = { TextEncoder, TextDecoder, URL, setTimeout, clearTimeout }
  const { accessTokenVerifier: make } = runInNewContext(`${source};verifier`, globals)
  return make(options)
}

describe('accessTokenVerifier, in Node and as a bundle for browsers', () => {
  it('agrees with requireDid on every token', async () => {
    const [inNode, inBrowser] = [accessTokenVerifier(options), bundled()]
    for (const [name, token, code] of tokens) {
      const ours = await request(app.app)
        .get('/me')
        .set({ Authorization: `DIDAuth ${String(token)}`, Accept: 'application/problem+json' })
      expect([name, ours.status === 200 ? undefined : ours.body.code]).toEqual([name, code])
      expect([name, await catchCode(inNode(token))]).toEqual([name, code])
      expect([name, await catchCode(inBrowser(token))]).toEqual([name, code])
    }
  })

  it('returns the user like req.user and req.auth of requireDid, for a real login', async () => {
    const fetch = await signedIn(app.app, wallet('alice'))
    const { user, auth } = (await (await fetch('/me')).json()) as { user: { did: string }; auth: object }
    const token = fetch.headers.Authorization!.replace('DIDAuth ', '')
    for (const verify of [accessTokenVerifier(options), bundled()]) {
      expect(JSON.parse(JSON.stringify(await verify(token)))).toEqual({ did: user.did, ...auth })
    }
    expect(await catchCode(accessTokenVerifier({ ...options, issuer: wallet('bob').did })(token))).toBe(
      'ERR_ACCESS_TOKEN'
    )
  })

  it('throws a DidAuthError of the package', () =>
    expect(accessTokenVerifier(options)('x')).rejects.toBeInstanceOf(DidAuthError))

  it('is small: the bundle of the entry has less than 82 kB', () => expect(source.length).toBeLessThan(82_000))
})
