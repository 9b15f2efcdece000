import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { testVault, VaultUser, type TestVault } from '../../support/vault-app.js'

let vault: TestVault
let user: VaultUser

beforeAll(async () => {
  vault = await testVault()
})
afterAll(() => vault.close())
beforeEach(async () => {
  user = await VaultUser.new(vault)
})

const VERBS = [
  ['post', 'notes'],
  ['put', 'notes'],
  ['put', 'notes/id']
] as const

/** Sends a body, byte for byte, by each verb that takes content. */
async function sendByAll(body: string | Buffer, type = 'application/json'): Promise<[number, string][]> {
  const answers: [number, string][] = []
  for (const [verb, path] of VERBS) {
    const { status, text } = await request(vault.listener)
      [verb](`/${path}`)
      .set('Authorization', user.authorization)
      .set('Content-Type', type)
      // Without this supertest would take the bytes for JSON to be written.
      .serialize((value: unknown) => value as string)
      .send(body)
    answers.push([status, text])
  }
  return answers
}

describe('content', () => {
  it.each([
    ['the empty string', ''],
    ['every control character', Array.from({ length: 32 }, (_, code) => String.fromCharCode(code)).join('')],
    ['a BOM at the start', '\ufefftext'],
    ['quotes and backslashes', '"\\"\\\\'],
    ['line ends', 'a\r\nb\rc\nd\u2028e\u2029f'],
    ['an emoji', '💥👩‍👩‍👧‍👦'],
    ['256 KiB and one byte', 'b'.repeat(262_145)]
  ])('comes back exactly: %s', async (_what, content) => {
    await user.post('notes', content).expect(201)
    expect((await user.read('notes').expect(200)).body).toEqual([content])
    await user.put('notes', `${content}2`).expect(200)
    expect((await user.read('notes').expect(200)).body).toEqual([`${content}2`])
  })

  // How bodies are parsed is proved where it is done: test/servers/http.
  it.each([
    ['with a number', '{"content":7}', 'Invalid content'],
    ['that are no JSON', '{"content":"a",}', 'Malformed JSON'],
    ['that are no UTF-8', Buffer.from([...Buffer.from('{"content":"'), 0xff, 0x22, 0x7d]), 'Malformed JSON']
  ])('in bodies %s is 400, and changes nothing', async (_what, body, text) => {
    await user.post('notes', 'kept').expect(201)
    expect(await sendByAll(body)).toEqual(Array(3).fill([400, text]))
    await user.read('notes').expect(200, ['kept'])
  })

  it('may have 1,048,576 bytes, and not one more', async () => {
    const content = '\u{1f4a5}'.repeat(262_144)
    await user.post('notes', content).expect(201)
    expect((await user.read('notes').expect(200)).body).toEqual([content])
    const tooLarge = JSON.stringify({ content: `${content}a` })
    expect(await sendByAll(tooLarge)).toEqual(Array(3).fill([413, 'Content too large: at most 1048576 bytes']))
    expect((await user.get('storage')).body).toMatchObject({ used: 1_048_576, usedEntries: 1 })
  })

  it('has the maximum that VAULT_MAX_CONTENT_BYTES says', async () => {
    const small = await testVault({ VAULT_MAX_CONTENT_BYTES: '4' }, { folder: vault.folder })
    const late = await VaultUser.new(small)
    await late.post('notes', '💥').expect(201)
    await late.post('notes', '12345').expect(413, 'Content too large: at most 4 bytes')
    await small.close()
  })
})
