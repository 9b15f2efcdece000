import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { rawRequest, type RawAnswer } from '../../support/servers/server-client.js'
import { createWallet, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'
import { createLoginText, createNumberedWallet } from '../../support/fixtures/fixtures.js'

let vault: TestVault
let user: VaultUser

beforeAll(async () => {
  vault = await testVault()
})
afterAll(() => vault.close())
beforeEach(async () => {
  user = await VaultUser.new(vault)
})

/** Tries every write under a key, and returns status and text of each. */
async function tryWrites(key: string): Promise<[number, string][]> {
  const answers = [
    await user.post(key, 'a'),
    await user.put(key, 'a'),
    await user.put(`${key}/id`, 'a'),
    await user.delete(key),
    await user.delete(`${key}/id`)
  ]
  return answers.map(({ status, text }) => [status, text])
}

/** Sends a request of the user without normalizing its path. */
function ask(method: string, path: string): Promise<RawAnswer> {
  const headers = { Authorization: user.authorization, 'Content-Type': 'application/json' }
  return rawRequest(vault.listener, method, `/${path}`, headers)
}

describe('a key', () => {
  it.each([
    ['512 bytes in characters of 4 bytes', encodeURIComponent('💥'.repeat(128))],
    ['a slash', 'a%2Fb'],
    ['a percent sign', '100%25'],
    ['a plus sign', 'a+b'],
    ['Hebrew', encodeURIComponent('מפתח')],
    ['a BOM', '%EF%BB%BF'],
    ['__proto__', '__proto__'],
    ['SQL', `';DROP%20TABLE%20entries;--`],
    ['the name of another route', 'keys'],
    ['a reserved name and more', 'auth2'],
    ['a DID', 'did:web:a']
  ])('may be %s', async (_what, key) => {
    const { id } = (await user.post(key, 'a').expect(201)).body
    await user.read(key).expect(200, ['a'])
    expect((await user.get('keys')).body.keys).toEqual([{ key: decodeURIComponent(key), entries: [{ id, size: 1 }] }])
    await user.put(key, 'b').expect(200)
    await user.put(`${key}/${id}`, 'c').expect(200)
    await user.read(key).expect(200, ['b', 'c'])
    await user.delete(`${key}/${id}`).expect(200)
    await user.delete(key).expect(200)
    await user.read(key).expect(200, [])
  })

  it('is refused if Vault-Key names another one, as after a proxy that decoded %2F, %2E or %25', async () => {
    for (const key of ['a', 'notes']) await user.post(key, 'kept').set('Vault-Key', key).expect(201)
    const [{ id }] = (await user.get('keys')).body.keys[0].entries
    const text = 'Invalid key: Vault-Key names another key than the path, which a proxy may have decoded'
    for (const write of [
      // The paths that a/b, a/<id>, a/../notes, a%2Fb and a key with an unusable header become.
      () => user.put('a/b', 'lost').set('Vault-Key', 'a%2Fb'),
      () => user.delete(`a/${id}`).set('Vault-Key', `a%2F${id}`),
      () => user.put('notes', 'lost').set('Vault-Key', 'a%2F..%2Fnotes'),
      () => user.post('a%2Fb', 'lost').set('Vault-Key', 'a%252Fb'),
      () => user.delete('a').set('Vault-Key', 'a%'),
      () => user.delete('a').set('Vault-Key', '')
    ]) {
      await write().expect(400, text)
    }
    await user.put('a%2Fb', 'written').set('Vault-Key', 'a%2Fb').expect(200)
    await user.delete('ab').set('Vault-Key', '%61b').expect(200)
    const { keys } = (await user.get('keys')).body
    expect(keys.map(({ key }: { key: string }) => key)).toEqual(['a', 'notes', 'a/b'])
    await user.read('a').expect(200, ['kept'])
  })

  it('is compared by its exact code points', async () => {
    for (const key of [
      'k',
      'K',
      'k%20',
      'k%00',
      encodeURIComponent('e\u0301'),
      encodeURIComponent('\u00e9'),
      '%CE%BA'
    ]) {
      await user.post(key, key)
    }
    await user.read('k').expect(200, ['k'])
    await user.read('K').expect(200, ['K'])
    await user.read('k%20').expect(200, ['k%20'])
    await user.read('%65%CC%81').expect(200, [encodeURIComponent('e\u0301')])
    await user.read('%C3%A9').expect(200, [encodeURIComponent('\u00e9')])
  })

  it.each([
    ['513 bytes in characters of 3 bytes', encodeURIComponent('€'.repeat(171))],
    ['NUL', '%00'],
    ['a line feed', 'a%0Ab'],
    ['the first control character of C1', '%C2%80'],
    ['the last control character of C1', '%C2%9F']
  ])('may not be %s: writes are answered 400, and a read is empty', async (_what, key) => {
    expect(await tryWrites(key)).toEqual(Array(5).fill([400, 'Invalid key']))
    await user.read(key).expect(200, [])
  })

  it('may not be one or two dots, also if the client does not resolve them', async () => {
    // HTTP clients resolve `.` and `%2e` before they send. A raw request does not.
    for (const key of ['%2e', '%2E%2e', '.', '..']) {
      const { status, text } = await ask('DELETE', key)
      expect([key, status, text]).toEqual([key, 400, 'Invalid key'])
      expect(await ask('GET', `${user.did}/${key}`)).toEqual({ status: 200, text: '[]' })
    }
  })

  it.each(['%ff', '%', '%2', '%zz', '%E0%A4%A', '%C0%80', '%ED%A0%80', 'a%ffb'])(
    'is answered 400 by every method if its percent-encoding is invalid: %s',
    async (key) => {
      for (const [method = '', path = ''] of [
        ['POST', key],
        ['PUT', key],
        ['PUT', `${key}/id`],
        ['PUT', `a/${key}`],
        ['DELETE', key],
        ['DELETE', `${key}/id`],
        ['DELETE', `a/${key}`],
        ['GET', `${user.did}/${key}`],
        ['GET', `${key}/a`]
      ]) {
        const answer = await ask(method, path)
        expect([method, path, answer]).toEqual([method, path, { status: 400, text: 'Malformed path' }])
      }
    }
  )

  it('is no route if it is empty', async () => {
    for (const [method = '', path = ''] of [
      ['POST', ''],
      ['PUT', ''],
      ['PUT', '/id'],
      ['DELETE', ''],
      ['DELETE', '/id'],
      ['GET', `${user.did}/`],
      ['GET', '/notes']
    ]) {
      const answer = await ask(method, path)
      expect([method, path, answer]).toEqual([method, path, { status: 404, text: 'Not found' }])
    }
  })

  it('is no route with a trailing slash, because an empty ID must not mean all entries', async () => {
    await user.post('notes', 'a').expect(201)
    for (const [method, path] of [
      ['POST', 'notes/'],
      ['PUT', 'notes/'],
      ['PUT', 'notes/id/'],
      ['DELETE', 'notes/'],
      ['DELETE', 'notes/id/'],
      ['GET', `${user.did}/notes/`],
      ['GET', 'keys/'],
      ['GET', 'storage/'],
      ['GET', 'backup/']
    ] as const) {
      const answer = await ask(method, path)
      expect([method, path, answer]).toEqual([method, path, { status: 404, text: 'Not found' }])
    }
    await user.read('notes').expect(200, ['a'])
  })
})

describe('a reserved key', () => {
  const names = ['request-signup', 'signup', 'request-auth', 'auth', 'logout', 'refresh-token']

  it.each(names)('%s is refused with 400 by PUT and DELETE, in any spelling', async (name) => {
    const partlyEncoded = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`
    for (const key of [name, name.toUpperCase(), name[0]!.toUpperCase() + name.slice(1), partlyEncoded]) {
      for (const answer of [
        await user.put(key, 'a'),
        await user.put(`${key}/id`, 'a'),
        await user.delete(key),
        await user.delete(`${key}/id`)
      ]) {
        expect([key, answer.status, answer.text]).toEqual([key, 400, 'Reserved key'])
      }
    }
    expect((await user.get('keys')).body).toEqual({ keys: [] })
  })

  it.each(names)('%s is the login route for POST, and is refused with 400 in other spellings', async (name) => {
    for (const key of [name, `${name}/`]) {
      // Each route of the library refuses `{ content }` with a different text.
      const { status, text } = await user.post(key, 'a')
      expect(name === 'logout' ? [status, text] : [status, text !== 'Reserved key']).toEqual(
        name === 'logout' ? [200, ''] : [401, true]
      )
    }
    const encoded = Buffer.from(name).toString('hex').replace(/../g, '%$&')
    const upper = name.toUpperCase()
    const partlyEncoded = `%${name.charCodeAt(0).toString(16)}${name.slice(1)}`
    for (const key of [
      encoded,
      encoded.toUpperCase(),
      partlyEncoded,
      upper,
      `${upper}/`,
      upper.charAt(0) + name.slice(1)
    ]) {
      await user.post(key, 'a').expect(400, 'Reserved key')
    }
  })

  // Cause: Express matches routes in any letter case, and a write under the key LOGOUT logged its user out.
  it('does not log a user out when it is written in capitals', async () => {
    const { did, personalSign } = createWallet()
    const challengeAnswer = await request(vault.listener).get(`/request-auth/${did}`).expect(200)
    const sig = personalSign(
      createLoginText('vault.example', (challengeAnswer.body as { challenge: string }).challenge)
    )
    const login = await request(vault.listener).post('/auth').send({ did, sig }).expect(200)
    const body = { refreshToken: (login.body as { refreshToken: string }).refreshToken }
    await request(vault.listener).post('/LOGOUT').send(body).expect(400, 'Reserved key')
    await request(vault.listener).post('/refresh-token').send(body).expect(200)
  })
})

describe('GET /:did/:key', () => {
  it.each(['nobody', 'did:', 'did:web:', 'auth', 'signup', '%00', 'did%3Aweb%3Aa%2F', 'x'.repeat(9_000), '__proto__'])(
    'returns [] for an invalid DID: %s',
    async (did) => {
      const answer = await request(vault.listener).get(`/${did}/notes`).expect(200)
      expect(answer.text).toBe('[]')
    }
  )

  it('returns [] for a DID without entries', async () => {
    await user.post('notes', 'a').expect(201)
    for (const did of [createNumberedWallet(3).did, 'did:web:example.com', `${user.did}0`]) {
      const answer = await request(vault.listener).get(`/${did}/notes`).expect(200)
      expect([answer.text, answer.headers['content-type']]).toEqual(['[]', 'application/json; charset=utf-8'])
    }
  })

  it('leaves routes of two segments to the library', async () => {
    for (const name of ['request-auth', 'request-signup']) {
      const answer = await request(vault.listener).get(`/${name}/${user.did}`).expect(200)
      expect(Object.keys(answer.body)).toEqual(['challenge'])
      await request(vault.listener).get(`/${name}/notes`).expect(401)
    }
  })
})
