import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { hashOf, rotationOf, service, START_SECONDS, useOf } from '../../src/testing/store-case.js'
import { engines, sqliteFile, type SqliteFile } from '../support/sqlite-stores.js'

/** The tables of version 1, word for word as 0.1 created them. */
const VERSION_1 = `
  CREATE TABLE did_auth_numbers (name TEXT NOT NULL PRIMARY KEY, number INTEGER NOT NULL) STRICT;
  CREATE TABLE did_auth_sessions (
    id INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    session_id TEXT NOT NULL,
    canonical_did TEXT NOT NULL,
    did TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'loggedOut', 'revoked')),
    token_claims TEXT,
    refresh_token_hash TEXT NOT NULL,
    rotations INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    rotated_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (session_id, service),
    UNIQUE (refresh_token_hash, service)
  ) STRICT;
  CREATE INDEX did_auth_sessions_by_user ON did_auth_sessions (canonical_did, service, id);
  CREATE INDEX did_auth_sessions_by_end ON did_auth_sessions (expires_at);
  CREATE TABLE did_auth_replaced_tokens (
    refresh_token_hash TEXT NOT NULL,
    service TEXT NOT NULL,
    session INTEGER NOT NULL,
    rotation INTEGER NOT NULL,
    replaced_at INTEGER NOT NULL,
    PRIMARY KEY (refresh_token_hash, service)
  ) STRICT;
  CREATE INDEX did_auth_replaced_tokens_by_session ON did_auth_replaced_tokens (session, rotation);
  CREATE TABLE did_auth_challenge_uses (
    id INTEGER PRIMARY KEY,
    service TEXT NOT NULL,
    canonical_did TEXT NOT NULL,
    challenge_window INTEGER NOT NULL,
    log_in INTEGER NOT NULL,
    sign_up INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    UNIQUE (canonical_did, challenge_window, service)
  ) STRICT;
  CREATE INDEX did_auth_challenge_uses_by_end ON did_auth_challenge_uses (expires_at);
  CREATE TABLE did_auth_quotas (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    service TEXT NOT NULL,
    quota_key TEXT NOT NULL,
    request_count INTEGER NOT NULL,
    resets_at INTEGER NOT NULL,
    UNIQUE (quota_key, service, kind)
  ) STRICT;
  CREATE INDEX did_auth_quotas_by_end ON did_auth_quotas (kind, resets_at);
  INSERT INTO did_auth_numbers (name, number)
    VALUES ('sessions', 0), ('challengeUses', 0), ('requestQuotas', 0), ('namingQuotas', 0), ('version', 1);`

const did = 'did:ethr:rsk:0xAa'
const DAY = 86_400

describe.each(engines)('a file of version 1, opened by %s', (engine) => {
  let files: SqliteFile
  beforeEach(() => {
    files = sqliteFile(engine)
    const old = files.inspect()
    old.exec(VERSION_1)
    const session = old.prepare(`INSERT INTO did_auth_sessions (service, session_id, canonical_did, did, state,
      token_claims, refresh_token_hash, rotations, created_at, rotated_at, expires_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
    const [start, end] = [START_SECONDS, START_SECONDS + 3600]
    const user = [did.toLowerCase(), did] as const
    session.run(service, 'fresh', ...user, 'active', '{"role":"admin"}', hashOf('fresh', 0), 0, start, start, end)
    session.run(service, 'twice', ...user, 'active', null, hashOf('twice', 2), 2, start, start + 20, end + 20)
    session.run(service, 'out', ...user, 'loggedOut', null, hashOf('out', 0), 0, start, start, end)
    const replaced = old.prepare('INSERT INTO did_auth_replaced_tokens VALUES (?, ?, 2, ?, ?)')
    replaced.run(hashOf('twice', 0), service, 0, start + 10)
    replaced.run(hashOf('twice', 1), service, 1, start + 20)
    old.exec(`INSERT INTO did_auth_challenge_uses (service, canonical_did, challenge_window, log_in, sign_up, expires_at)
      VALUES ('${service}', '${useOf().did}', 6000000, 2, 1, ${String(start + 300)});
      INSERT INTO did_auth_quotas (kind, service, quota_key, request_count, resets_at)
      VALUES ('naming', '${service}', '203.0.113.7', 5, ${String(start + 60)})`)
  })
  afterEach(() => files.remove())

  it('keeps its sessions, with their ids, states, claims and replaced tokens', async () => {
    const store = files.store()
    expect(await store.findSession(service, 'fresh')).toMatchObject({
      sessionId: 'fresh',
      did,
      state: 'active',
      tokenClaims: { role: 'admin' },
      refreshTokenHash: hashOf('fresh', 0)
    })
    expect({ ...(await store.findSession(service, 'twice')) }).toEqual({
      sessionId: 'twice',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS + 20,
      expiresAtSeconds: START_SECONDS + 3620,
      refreshTokenHash: hashOf('twice', 2),
      replacedTokens: [
        { hash: hashOf('twice', 1).slice(0, 24), replacedAtSeconds: START_SECONDS + 20 },
        { hash: hashOf('twice', 0).slice(0, 24), replacedAtSeconds: START_SECONDS + 10 }
      ]
    })
    expect((await store.findSession(service, 'out'))?.state).toBe('loggedOut')
    expect((await store.listSessions(service, did.toLowerCase(), START_SECONDS)).map((one) => one.sessionId)).toEqual([
      'twice',
      'fresh'
    ])
  })

  it('finds the session of each old token, current or replaced, and of no other', async () => {
    const store = files.store()
    const tokens = [
      ['fresh', 0],
      ['twice', 0],
      ['twice', 1],
      ['twice', 2],
      ['out', 0],
      ['other', 0]
    ] as const
    const found = tokens.map(([session, token]) => store.findMigratedSessionId(service, hashOf(session, token)))
    expect(await Promise.all(found)).toEqual(['fresh', 'twice', 'twice', 'twice', 'out', undefined])
    expect(await store.findMigratedSessionId('https://another.example', hashOf('fresh', 0))).toBeUndefined()
  })

  it('goes on with the old tokens: refreshes the current one, and notices a replaced one', async () => {
    const store = files.store()
    const later = { nowSeconds: START_SECONDS + 100 }
    expect(await store.rotateRefreshToken(rotationOf('fresh', 0, 'next', { sessionId: 'fresh', ...later }))).toBe(
      'rotate'
    )
    expect(await store.rotateRefreshToken(rotationOf('twice', 0, 'next', { sessionId: 'twice', ...later }))).toBe(
      'reused'
    )
    expect(await store.findMigratedSessionId(service, hashOf('fresh', 0))).toBe('fresh')
  })

  it('keeps the uses of challenges', async () => {
    const store = files.store()
    expect(await store.countChallengeUses(useOf())).toEqual({ logIn: 2, signUp: 1 })
    expect(await store.consumeChallenge(useOf({ useCount: 1 }))).toBe('taken')
    expect(await store.consumeChallenge(useOf({ useCount: 2 }))).toBe('consumed')
  })

  it('holds no client address any more', async () => {
    await files.store().close()
    const tables = files.rows("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    expect(tables.map(({ name }) => name)).toEqual([
      'did_auth_challenge_uses',
      'did_auth_migrated_tokens',
      'did_auth_numbers',
      'did_auth_sessions'
    ])
  })

  it('forgets an old token with its session', async () => {
    const store = files.store({ maxSessions: 1 })
    await store.createSession({
      service,
      sessionId: 'new',
      did: 'did:example:new',
      refreshTokenHash: hashOf('new', 0),
      tokenClaims: undefined,
      nowSeconds: START_SECONDS + 2 * DAY,
      expiresAtSeconds: START_SECONDS + 3 * DAY
    })
    expect(await store.findMigratedSessionId(service, hashOf('fresh', 0))).toBeUndefined()
    expect(files.rows('SELECT * FROM did_auth_migrated_tokens')).toEqual([])
  })

  it('evicts sessions that were never refreshed before those that were', async () => {
    const store = files.store({ maxSessions: 2 })
    await store.createSession({
      service,
      sessionId: 'new',
      did: 'did:example:new',
      refreshTokenHash: hashOf('new', 0),
      tokenClaims: undefined,
      nowSeconds: START_SECONDS,
      expiresAtSeconds: START_SECONDS + DAY
    })
    expect((await store.findSession(service, 'twice'))?.state).toBe('active')
    expect(await store.findSession(service, 'fresh')).toBeUndefined()
  })

  it('is brought up to date once, also where two open it, and stays so', async () => {
    const [first, second] = [files.store(), files.store()]
    await Promise.all([first.close(), second.close()])
    const numbers = files.rows('SELECT name, number FROM did_auth_numbers ORDER BY name')
    expect(numbers).toEqual([
      { name: 'pings', number: 0 },
      { name: 'usesForgottenUntil', number: 0 },
      { name: 'version', number: 2 }
    ])
    expect(files.rows('SELECT id FROM did_auth_sessions')).toHaveLength(3)
  })

  it('is left as it was where it cannot be brought up to date', () => {
    files.inspect().exec('DROP TABLE did_auth_replaced_tokens')
    expect(() => files.store()).toThrow('did_auth_replaced_tokens')
    expect(files.rows("SELECT number FROM did_auth_numbers WHERE name = 'version'")).toEqual([{ number: 1 }])
    expect(files.rows('SELECT rotations FROM did_auth_sessions')).toHaveLength(3)
  })
})
