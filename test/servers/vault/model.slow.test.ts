import { describe, expect, it, jest } from '@jest/globals'
import { usePostgresContents } from '../../support/postgres-contents.js'
import { checkVaultModel } from '../../support/vault-model.js'
import { scaled } from '../../support/time-factor.js'

const RUNS = Number(process.env.MODEL_RUNS ?? 6)

jest.setTimeout(scaled(300_000 + RUNS * 20_000))

const make = usePostgresContents()
const clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }

describe(`the vault answers and stores what its model does, pins included, after each of 50 operations of 4 DIDs, ${RUNS} times`, () => {
  it('on SQLite', async () => {
    await expect(checkVaultModel(RUNS)).resolves.toBeUndefined()
  })

  it('on PostgreSQL', async () => {
    const files = await make()
    await expect(checkVaultModel(RUNS, files.openAll({ tracksPins: true, clock }))).resolves.toBeUndefined()
    await files.remove()
  })
})
