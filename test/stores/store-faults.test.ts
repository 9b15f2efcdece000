import { describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import request from 'supertest'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import { authApp, logIn, serviceUrl, START_SECONDS } from '../support/auth-app.js'
import { faultyDatabase } from '../support/store-faulty-database.js'
import { walletOf } from '../support/wallet.js'

/** More than any request executes. */
const MOST_STATEMENTS = 40

describe.each(['before', 'after'] as const)('a store that fails %s its n-th statement', (when) => {
  it('makes a refresh 503 with Retry-After, and leaves either the old refresh token good or the new one', async () => {
    const outcomes = new Set<string>()
    for (let statements = 0; statements < MOST_STATEMENTS; statements += 1) {
      const database = faultyDatabase(new Database(':memory:'))
      const store = sqliteStore(database)
      let nextHash = ''
      const rotate = store.rotateRefreshToken.bind(store)
      store.rotateRefreshToken = (rotation) => {
        nextHash = rotation.nextHash
        return rotate(rotation)
      }
      const { app } = await authApp({ store })
      const { refreshToken } = await logIn(app, walletOf(1))

      database.failAt(statements, when)
      const answer = await request(app).post('/refresh-token').send({ refreshToken })
      if (!database.hasFailed()) break
      expect(answer.status).toBe(503)
      expect(answer.headers['retry-after']).toBe('5')
      expect(answer.text).toBe('Store unavailable, try again')

      const isNewGood = await rotate({
        service: serviceUrl,
        presentedHash: nextHash,
        nextHash: 'the one after',
        nowSeconds: START_SECONDS,
        nextExpiresAtSeconds: START_SECONDS + 60,
        graceSeconds: 10
      })
      const old = await request(app).post('/refresh-token').send({ refreshToken })
      outcomes.add(`old ${old.status}, new ${isNewGood}`)
    }
    // The last row is a commit that was done and yet reported as failed.
    const expected = ['old 200, new unknown', ...(when === 'after' ? ['old 401, new rotate'] : [])]
    expect([...outcomes].sort()).toEqual(expected)
  })

  it('makes a login 503, and the next one good', async () => {
    let statements = 0
    for (; statements < MOST_STATEMENTS; statements += 1) {
      const database = faultyDatabase(new Database(':memory:'))
      const { app } = await authApp({ store: sqliteStore(database) })
      database.failAt(statements, when)
      await logIn(app, walletOf(1)).catch(() => undefined)
      if (!database.hasFailed()) break
      const { accessToken } = await logIn(app, walletOf(1))
      await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    }
    expect(statements).toBeGreaterThan(10)
    expect(statements).toBeLessThan(MOST_STATEMENTS)
  })
})
