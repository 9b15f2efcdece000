import { describe, expect, it } from '@jest/globals'
import { inspect } from 'node:util'
import { redisQuotas, redisStore } from '../../src/stores/redis/index.js'
import { parseRedisUrl } from '../../src/stores/redis/redis-source.js'
import { createCharge } from '../../src/testing/store-case.js'

describe('the URL of a Redis', () => {
  it.each([
    ['redis://localhost', [{ host: 'localhost', port: 6379 }], {}],
    ['redis://localhost:7000/3', [{ host: 'localhost', port: 7000 }], { database: 3 }],
    ['rediss://a.example', [{ host: 'a.example', port: 6379 }], { isTls: true }],
    ['redis://me:p%40ss%2F%3A@h', [{ host: 'h', port: 6379 }], { username: 'me', password: 'p@ss/:' }],
    ['redis://:secret@[::1]:6380', [{ host: '::1', port: 6380 }], { password: 'secret' }],
    ['redis://a:1,b:2,c', [{ host: 'a', port: 1 }, { host: 'b', port: 2 }, { host: 'c', port: 6379 }], {}] // prettier-ignore
  ])('is parsed: %s', (url, hosts, more) => {
    const plain = { isTls: false, username: undefined, password: undefined, database: 0 }
    expect(parseRedisUrl(url)).toEqual({ ...plain, ...more, hosts })
  })

  it.each([
    ['no URL', 'hunter2'],
    ['another scheme', 'http://u:hunter2@h'],
    ['no host', 'redis://u:hunter2@'],
    ['no port', 'redis://u:hunter2@h:port'],
    ['a password with a broken escape', 'redis://u:hunter2%zz@h'],
    ['a password that is not encoded', 'redis://u:hunter2/@x@h'],
    ['a database in a cluster', 'redis://u:hunter2@a:1,b:2/1']
  ])('is refused without being quoted: %s', (_what, url) => {
    const refusal = (): unknown => redisQuotas(url)
    expect(refusal).toThrow('a Redis store needs a URL redis://user:password@host:6379/0')
    try {
      refusal()
    } catch (error) {
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('hunter2')
    }
  })

  it('is not part of the error of an unavailable Redis', async () => {
    const quotas = redisQuotas('redis://user:hunter2@127.0.0.1:1')
    const error = await quotas.chargeQuota(createCharge()).catch((reason: unknown) => reason)
    expect(inspect(error, { depth: 9, showHidden: true })).toContain('ECONNREFUSED')
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('hunter2')
    await quotas.close()
  })
})

describe('the argument of redisStore', () => {
  it.each([[undefined], [{}], [{ sendCommand: 'no' }], [7]])('must be a URL or a client: %p', (source) =>
    expect(() => redisQuotas(source as never)).toThrow('a Redis store needs a URL, or a client with sendCommand')
  )

  it('decides whether the store lists ended sessions: a cluster cannot', async () => {
    const client = { sendCommand: () => Promise.resolve() }
    const stores = [client, 'redis://a', { ...client, masters: [] }, 'redis://a,b'].map((source) => redisStore(source))
    expect(stores.map((store) => 'listEndedSessions' in store)).toEqual([true, true, false, false])
    await Promise.all(stores.map((store) => store.close()))
  })

  it('must be the URL of one Redis if writes wait for replicas', () => {
    const client = { sendCommand: () => Promise.resolve() }
    for (const source of [client, 'redis://a,b']) {
      expect(() => redisStore(source, { waitReplicas: 1 })).toThrow('waitReplicas needs the URL of one Redis')
    }
  })
})
