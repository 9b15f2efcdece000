import { describe, expect, it } from '@jest/globals'
import { createDevice } from '../support/fixtures/device.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import type { OpenSharedStores } from '../support/servers/shared-stores.js'
import { resourceKey, serviceUrl, testApp } from '../support/servers/test-app.js'

const wallet = createNumberedWallet(1)
const [owner, thief] = [createDevice(resourceKey(1)), createDevice(resourceKey(2))]

/** Tests a bound session in two instances that share a store of this engine. */
export const boundSessionTests = (name: string, open: OpenSharedStores): void =>
  describe(`a bound session in two instances on ${name}`, () => {
    it('is refreshed by its device only, once, however often a copy of its token is used at the same time', async () => {
      const { stores, remove } = await open()
      try {
        const config = { deviceBinding: 'accepted', maxRequestsPerTimeSlot: Infinity } as const
        const instances = await Promise.all(stores.map((store) => testApp({ ...config, store })))
        const [first, second] = instances as [(typeof instances)[0], (typeof instances)[0]]
        const { headers } = await first.post('/request-auth', { did: wallet.did }).expect(200)
        const prove = (path: string, device = owner) => ({
          Accept: 'application/problem+json',
          DPoP: device.prove({ url: serviceUrl + path, nonce: String(headers['dpop-nonce']) })
        })
        const { body } = await first.post('/auth', await first.createSignedLogin(), prove('/auth')).expect(200)
        const answers = await Promise.all(
          Array.from({ length: 20 }, async (_, index) => {
            const device = index % 4 < 2 ? thief : owner
            const instance = instances[index % 2]!
            const answer = await instance.refresh(body.refreshToken, prove('/refresh-token', device))
            return { isThief: device === thief, status: answer.status, body: answer.body }
          })
        )
        const stolen = answers.filter(({ isThief }) => isThief).map(({ body: { code } }) => code)
        expect(stolen).toEqual(Array(10).fill('ERR_DEVICE_PROOF'))
        const winners = answers.filter(({ status }) => status === 200)
        expect(winners.map(({ isThief }) => isThief)).toEqual([false])
        await second.refresh(winners[0]!.body.refreshToken, prove('/refresh-token')).expect(200)
      } finally {
        await Promise.all(stores.map((store) => store.close()))
        await remove()
      }
    })
  })
