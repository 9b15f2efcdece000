import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { usePostgresContents } from '../../support/servers/postgres-contents.js'
import { testVault, VaultUser } from '../../support/servers/vault-app.js'

describe('GET /:did/:key on PostgreSQL', () => {
  const prepare = usePostgresContents()

  // Cause: PostgreSQL refuses text with NUL, and the vault answered 503.
  it('returns [] for a DID or a key with NUL, and treats an ID with NUL as unknown', async () => {
    const contents = await prepare()
    const onPostgres = await testVault({}, { contents: await contents.openAll() })
    const owner = await VaultUser.new(onPostgres)
    await owner.post('notes', 'a').expect(201)
    for (const path of [`${owner.did}/%00`, `${owner.did}/notes%00`, '%00/notes', `${owner.did}%00/notes`]) {
      const answer = await request(onPostgres.listener).get(`/${path}`).expect(200)
      expect([path, answer.text]).toEqual([path, '[]'])
    }
    await owner.delete('notes/%00').expect(200)
    await owner.put('notes/%00', 'b').expect(200)
    await owner.read('notes').expect(200, ['a', 'b'])
    await onPostgres.close()
    await contents.remove()
  })
})
