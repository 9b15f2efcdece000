import { describe, expect, it } from '@jest/globals'
import { afterTest } from '../../support/fixtures/after-test.js'
import { fillVault, testVault, VaultUser } from '../../support/servers/vault-app.js'

describe('10,000 keys and 10 MiB of one user', () => {
  it('are listed, counted, backed up, read and replaced', async () => {
    const vault = await testVault()
    afterTest(() => vault.close())
    const user = await VaultUser.new(vault)
    const contents = Array.from({ length: 10_000 }, (_, number) => `${number} `.padEnd(1_049, 'z'))
    await fillVault(
      vault,
      user.did,
      contents.map((content, number) => [`key ${number}`, content])
    )
    const { keys } = (await user.get('keys').expect(200)).body
    expect(keys).toHaveLength(10_000)
    expect(keys[9_999]).toMatchObject({ key: 'key 9999', entries: [{ size: 1_049 }] })
    expect((await user.get('storage')).body).toEqual({
      used: 10_490_000,
      available: 56_618_864,
      usedEntries: 10_000,
      availableEntries: 0
    })
    const { did, entries } = (await user.get('backup').expect(200)).body
    expect([did, entries.length]).toEqual([user.did, 10_000])
    expect(entries.map((entry: { content: string }) => entry.content)).toEqual(contents)
    await user.read('key%205000').expect(200, [contents[5_000]])
    await user.post('one-more', 'a').expect(507, 'Storage full: 10001 entries with this write, at most 10000')
    await user.put('key%205000', 'new').expect(200)
    await user.read('key%205000').expect(200, ['new'])
  })
})
