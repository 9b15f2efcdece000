import { describe, expect, it } from '@jest/globals'
import { START_SECONDS } from '../support/fixtures/fixtures.js'
import { createForm, createMachine, machineConfig } from '../support/fixtures/machines.js'
import type { OpenSharedStores } from '../support/servers/shared-stores.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'

const machine = createMachine(1)
const config = { ...machineConfig, maxRequestsPerTimeSlot: Infinity }

/** Tests the single use of a machine's assertion at two instances that share a store of this engine. */
export const machineAssertionTests = (name: string, open: OpenSharedStores): void =>
  describe(`the assertion of a machine at two instances on ${name}`, () => {
    const withInstances = async (use: (ask: (index: number, exp?: number) => Promise<number>) => Promise<void>) => {
      const { stores, remove } = await open()
      try {
        const instances: TestApp[] = await Promise.all(stores.map((store) => testApp({ ...config, store })))
        // Slots of assertions have 900 s: the next one begins in 150 s.
        for (const { clock } of instances) clock.seconds = START_SECONDS - 150
        await use(async (index, exp = START_SECONDS + 60) => {
          const form = createForm(machine.assert({ exp }))
          return (await instances[index % 2]!.post('/token', form)).status
        })
      } finally {
        await Promise.all(stores.map((store) => store.close()))
        await remove()
      }
    }

    it('gives one token when it arrives 50 times at once', async () => {
      await withInstances(async (ask) => {
        const statuses = await Promise.all(Array.from({ length: 50 }, (_, index) => ask(index)))
        expect(statuses.sort()).toEqual([200, ...Array<number>(49).fill(401)])
        expect([await ask(0), await ask(1)]).toEqual([401, 401])
      })
    })

    it('gives at most one token when ten others with its jti and other ends arrive at once', async () => {
      await withInstances(async (ask) => {
        const ends = Array.from({ length: 10 }, (_, index) => START_SECONDS - 135 + index * 30)
        const statuses = await Promise.all(ends.map((exp, index) => ask(index, exp)))
        expect(statuses.filter((status) => status === 200).length).toBeLessThanOrEqual(1)
        expect(await ask(1, START_SECONDS + 199)).toBe(401)
      })
    })
  })
