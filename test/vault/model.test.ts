import { expect, it, jest } from '@jest/globals'
import fc from 'fast-check'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { DIDS, MODEL_QUOTA, operations, perform, VaultModel } from '../support/vault-model.js'
import { testVault, VaultUser } from '../support/vault-app.js'
import { VaultNode } from '../support/vault-node.js'
import { walletOf } from '../support/wallet.js'

const RUNS = Number(process.env.MODEL_RUNS ?? 12)

jest.setTimeout(60_000 + RUNS * 1_000)

it(`the vault answers and holds what its model does, after each of 50 operations of 4 DIDs, ${RUNS} times`, async () => {
  const node = new VaultNode()
  const { listener, database, close } = await testVault(MODEL_QUOTA, { node })
  const users = await Promise.all(
    Array.from({ length: DIDS }, (_, number) => VaultUser.logIn(listener, walletOf(number + 1)))
  )
  const held = database.prepare<[], string>('SELECT cid FROM blocks ORDER BY cid').pluck()

  await fc.assert(
    fc.asyncProperty(operations, async (sequence) => {
      for (const user of users) {
        for (const { key } of (await user.get('keys')).body.keys) await user.delete(encodeURIComponent(key))
      }
      const model = new VaultModel()
      for (const operation of sequence) {
        expect(await perform(users, operation)).toEqual(model.apply(operation))
        expect(held.all()).toEqual(model.heldIds())
        expect([...node.pins].sort()).toEqual(model.heldIds())
      }
      for (const [did, user] of users.entries()) {
        const inModel = model.contentsOf(did)
        for (const { key, contents } of inModel) {
          expect((await user.read(encodeURIComponent(key))).body).toEqual(contents)
        }
        const { keys } = (await user.get('keys')).body
        expect(new Map(keys.map(({ key, entries }: { key: string; entries: object[] }) => [key, entries]))).toEqual(
          new Map(
            inModel
              .filter(({ contents }) => contents.length > 0)
              .map(({ key, contents }) => [
                key,
                contents.map((content) => ({
                  id: contentOf(Buffer.from(content)).cid,
                  size: Buffer.byteLength(content)
                }))
              ])
          )
        )
        const all = inModel.flatMap(({ contents }) => contents)
        expect((await user.get('storage')).body).toMatchObject({
          used: Buffer.byteLength(all.join('')),
          usedEntries: all.length
        })
        expect((await user.get('backup')).body.entries).toHaveLength(all.length)
      }
    }),
    { numRuns: RUNS }
  )
  await close()
})
