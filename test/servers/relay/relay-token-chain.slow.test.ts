import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { verifyCredential } from 'did-jwt-vc'
import { Resolver } from 'did-resolver'
import { getResolver } from 'ethr-did-resolver'
import { startChain, type TestChain } from '../../support/engines/chain.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../../support/fixtures/fixtures.js'
import { logIn, postFile, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'

describe('the relay token at did-jwt-vc, with an issuer on a chain', () => {
  let chain: TestChain
  let relay: TestRelay

  beforeAll(async () => {
    chain = await startChain()
    relay = await startTestRelay()
  })

  afterAll(async () => {
    await relay.end()
    chain.stop()
  })

  it('is valid, and names its subject', async () => {
    const wallet = createNumberedWallet(1)
    const token = await logIn(relay, wallet)
    const networks = [{ name: 'rsk', chainId: 31, rpcUrl: chain.rpcUrl, registry: chain.registry }]
    // The packages use two versions of did-resolver, whose types differ.
    const resolver = new Resolver(getResolver({ networks }) as never)
    const policies = { now: START_SECONDS }
    const { verifiableCredential } = await verifyCredential(token, resolver, { policies })
    expect(verifiableCredential.type).toEqual(['VerifiableCredential', 'RelayToken'])
    expect(verifiableCredential.issuer).toEqual({ id: serviceWallet.did })
    expect(verifiableCredential.credentialSubject).toEqual({ id: wallet.did })
    const [header, , signature] = token.split('.')
    const [, payload] = (await logIn(relay, createNumberedWallet(2))).split('.')
    await expect(verifyCredential(`${header!}.${payload!}.${signature!}`, resolver, { policies })).rejects.toThrow(
      'invalid_signature'
    )
    expect((await postFile(relay, token, 'a file')).status).toBe(200)
  })
})
