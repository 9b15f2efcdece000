import { afterEach, expect, it } from '@jest/globals'
import { readEnv } from '../../../servers/config/read-env.js'
import { StartError } from '../../../servers/config/startup-error.js'
import { Connections } from '../../../servers/content/connections.js'
import { startRedis } from '../../support/engines/redis-server.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

const closing: (() => Promise<void> | void)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

// Cause: the server treated it like an outage, and waited forever.
it('a Redis that turns out to be a cluster node once it responds ends the start with one line', async () => {
  const redis = await startRedis(['--cluster-enabled', 'yes'])
  closing.push(() => redis.stop())
  await redis.kill()
  const { path, remove } = temporaryFolder()
  closing.push(remove)
  const env = readEnv({ DATA_DIR: path, REDIS_URL: redis.url }, 'auth', false)
  const connections = await Connections.open(env)
  closing.push(() => connections.close())
  const reported: string[] = []
  const failure: unknown = await connections
    .whenAvailable(({ variable }, reason) => {
      reported.push(`${variable}: ${reason}`)
      void redis.start()
    })
    .catch((error: unknown) => error)
  expect(reported).toEqual(['REDIS_URL: the connection was refused'])
  expect(failure).toBeInstanceOf(StartError)
  expect(String(failure)).toMatch(/^StartError: Cannot use Redis \(REDIS_URL\): this Redis is a node of a cluster: .*$/)
})
