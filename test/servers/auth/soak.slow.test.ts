import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { soak } from '../../bench/soak-users.js'
import { ServerProcesses } from '../../support/servers/server-process.js'

describe('auth, relay and vault under mixed requests of many users', () => {
  const servers = new ServerProcesses({ LOG_LEVEL: 'warn', MAX_REQUESTS_PER_TIME_SLOT: '1000000' })
  let output = (): string => ''
  let wrongAnswers: string[] | undefined

  beforeAll(async () => {
    const allServers = await servers.start({}, [], 'all')
    output = allServers.output
    wrongAnswers = await soak(allServers.servers, 2_000)
  })
  afterAll(() => servers.killAll())

  it('answer every request as documented', () => expect(wrongAnswers).toEqual([]))

  it('log only that they are ready, the address of the page, and the first refusal of each code', () => {
    const events = output()
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { event: string }).event)
    const refusals = events.filter((event) => event === 'first-refusal')
    // At most one line per code, and the requests of this test cause few codes.
    expect(refusals.length).toBeLessThan(8)
    expect(events.filter((event) => event !== 'first-refusal')).toEqual(['ready', 'ready', 'ready', 'page'])
  })
})
