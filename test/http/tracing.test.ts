import { describe, expect, it } from '@jest/globals'
import { tracingChannel, type TracingChannelSubscribers } from 'node:diagnostics_channel'
import { afterTest } from '../support/fixtures/after-test.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { breakableStore, serviceUrl, testApp } from '../support/servers/test-app.js'

const wallet = createNumberedWallet(1)

interface Traced {
  channel: string
  at: string
  message: Record<string, unknown>
}

/** Subscribes to channels until the test is over. Returns copies of the messages so far. */
function subscribe(...operations: string[]): Traced[] {
  const traced: Traced[] = []
  for (const operation of operations) {
    const channel = tracingChannel(`express-did-auth:${operation}`)
    const on = (at: string) => (message: object) => traced.push({ channel: operation, at, message: { ...message } })
    const listeners = { start: on('start'), asyncEnd: on('asyncEnd'), error: on('error') }
    channel.subscribe(listeners as unknown as TracingChannelSubscribers<object>)
    afterTest(() => {
      channel.unsubscribe(listeners as unknown as TracingChannelSubscribers<object>)
    })
  }
  return traced
}

describe('the tracing channels', () => {
  it('publish a login, a refresh and a guarded request, with the DID after success, and no token', async () => {
    const { logIn, refresh, me } = await testApp()
    const traced = subscribe('login', 'refresh', 'guard')
    const { accessToken, refreshToken } = await logIn()
    await refresh(refreshToken).expect(200)
    await me(accessToken).expect(200)
    const { did } = wallet
    expect(traced.filter(({ at }) => at !== 'asyncEnd')).toEqual([
      { channel: 'login', at: 'start', message: { serviceUrl, kind: 'login' } },
      { channel: 'refresh', at: 'start', message: { serviceUrl } },
      { channel: 'guard', at: 'start', message: { serviceUrl } }
    ])
    expect(traced.filter(({ at }) => at === 'asyncEnd')).toEqual([
      { channel: 'login', at: 'asyncEnd', message: { serviceUrl, kind: 'login', did, result: undefined } },
      { channel: 'refresh', at: 'asyncEnd', message: { serviceUrl, result: undefined } },
      { channel: 'guard', at: 'asyncEnd', message: { serviceUrl, did, result: undefined } }
    ])
  })

  it('publish a refused request with its error, and no DID', async () => {
    const { post, me } = await testApp()
    const traced = subscribe('login', 'guard')
    await post('/auth', { did: wallet.did, sig: `0x${'1'.repeat(130)}` }).expect(401)
    await me('x').expect(401)
    const errors = traced.filter(({ at }) => at === 'error')
    expect(errors.map(({ channel, message }) => [channel, message])).toEqual([
      ['login', { serviceUrl, kind: 'login', error: expect.objectContaining({ code: 'ERR_SIGNATURE' }) }],
      ['guard', { serviceUrl, error: expect.objectContaining({ code: 'ERR_ACCESS_TOKEN' }) }]
    ])
  })

  it('publish each verb of an own store by its name, and its failure as the client sees it', async () => {
    const { store, state } = breakableStore('chargeQuota')
    const { logIn, me } = await testApp({ store })
    const { accessToken } = await logIn()
    const traced = subscribe('store')
    await me(accessToken).expect(200)
    state.isBroken = true
    await me(accessToken).expect(503)
    expect(traced.map(({ at, message }) => [at, message])).toEqual([
      ['start', { verb: 'chargeQuota' }],
      ['asyncEnd', { verb: 'chargeQuota', result: undefined }],
      ['start', { verb: 'chargeQuota' }],
      ['error', { verb: 'chargeQuota', error: expect.objectContaining({ code: 'ERR_STORE' }) }],
      ['asyncEnd', { verb: 'chargeQuota', error: expect.objectContaining({ code: 'ERR_STORE' }) }]
    ])
  })
})
