import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { soak } from '../../bench/soak.js'
import { expressMajor } from '../../support/express-major.js'
import { ServerProcesses } from '../../support/server-process.js'
import { temporaryFolder } from '../../support/store-folder.js'

describe('the three servers under mixed requests of many users', () => {
  const folder = temporaryFolder()
  const servers = new ServerProcesses({
    DATA_DIR: folder.path,
    TEST_EXPRESS: String(expressMajor),
    LOG_LEVEL: 'warn',
    MAX_REQUESTS_PER_TIME_SLOT: '1000000'
  })
  let output = (): string => ''
  let wrong: string[] | undefined

  beforeAll(async () => {
    const all = await servers.start({}, [], 'all')
    output = all.output
    wrong = await soak(all.servers, 2_000)
  })
  afterAll(async () => {
    await servers.killAll()
    folder.remove()
  })

  it('answer each as documented', () => {
    expect(wrong).toEqual([])
  })

  it('have nothing to log but that they are ready, and where the page is', () => {
    const events = output()
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { event: string }).event)
    expect(events).toEqual(['ready', 'ready', 'ready', 'page'])
  })
})
