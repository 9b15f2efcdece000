import { describe, expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { loadCurve } from '../../src/adapters/curve.js'
import { issueJwt } from '../../src/adapters/es256k-signer.js'
import { isSignedBy, parseJwt } from '../../src/protocol/jwt.js'
import { es256k } from '../protocol/forge-jwt.js'
import { nodeOptions, scriptFile } from '../support/run-script.js'
import { walletOf } from '../support/wallet.js'

const sign = es256k(walletOf(7777).privateKey)
const claims = { iss: 'did:ethr:rsk:0x1', iat: 1_800_000_000, a: 'ü', b: [1, null] }

describe('issueJwt', () => {
  it('signs header and payload as ES256K, and isSignedBy knows the key', async () => {
    const curve = await loadCurve()
    const inputs: string[] = []
    const jwt = await issueJwt(claims, async (data) => {
      inputs.push(data)
      return sign(data)
    })
    expect(inputs).toEqual([jwt.slice(0, jwt.lastIndexOf('.'))])
    const publicKey = curve.publicKeyOf(Buffer.from(walletOf(7777).privateKey.slice(2), 'hex'))!
    expect(isSignedBy(curve, parseJwt(jwt, 4096)!, publicKey)).toBe(true)
    const otherKey = curve.publicKeyOf(Buffer.from(walletOf(1).privateKey.slice(2), 'hex'))!
    expect(isSignedBy(curve, parseJwt(jwt, 4096)!, otherKey)).toBe(false)
  })

  // did-jwt has a clock of its own, and options that add to a payload.
  it('adds no header field and no claim, and changes none, though did-jwt knows the time', async () => {
    const jwt = await issueJwt(claims, async (data) => sign(data))
    const [header, payload] = jwt.split('.').map((part) => Buffer.from(part, 'base64url').toString())
    expect(header).toBe('{"alg":"ES256K","typ":"JWT"}')
    expect(JSON.parse(payload!)).toEqual(claims)
  })

  it('leaves a frozen payload as it is, and fails as its signer fails', async () => {
    const failure = new Error('the signer is unavailable')
    const issued = issueJwt(Object.freeze({ ...claims }), () => Promise.reject(failure))
    await expect(issued).rejects.toBe(failure)
  })

  // Its import takes as long as ours. A process in which it is missing shows when it is loaded.
  it('loads did-jwt with the first token, neither with the package nor at setup', () => {
    const script = `
      import express from 'express'
      import { setupDidAuth } from 'express-did-auth'
      import { accessTokenFor, testConfig, wallet } from 'express-did-auth/testing'
      await setupDidAuth(express(), testConfig()).ready
      console.log('ready')
      await accessTokenFor(wallet('alice').did).catch(({ code }) => console.log(code))`
    const imports = pathToFileURL(scriptFile('test/support/server-imports.ts')).href
    const args = [...nodeOptions, '--import', imports, '--input-type=module', '--eval', script]
    const env = { ...process.env, TEST_MISSING: 'did-jwt' }
    expect(execFileSync(process.execPath, args, { encoding: 'utf8', env })).toBe('ready\nERR_MODULE_NOT_FOUND\n')
  })
})
