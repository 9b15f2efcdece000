import { describe, expect, it } from '@jest/globals'
import { rounds } from '../../support/fixtures/time-factor.js'
import { usePostgresContents } from '../../support/servers/postgres-contents.js'
import { checkVaultModel } from '../../support/models/vault-model.js'

const RUNS = rounds(6, 1_000)

const make = usePostgresContents()
const clock = { nowSeconds: () => Math.floor(Date.now() / 1_000) }

describe(`a vault after each of 50 operations of 4 DIDs, ${RUNS} times`, () => {
  it('answers, stores and pins as the model on SQLite', () => expect(checkVaultModel(RUNS)).resolves.toBeUndefined())

  it('answers, stores and pins as the model on PostgreSQL', async () => {
    const files = await make()
    await expect(checkVaultModel(RUNS, await files.openAll({ tracksPins: true, clock }))).resolves.toBeUndefined()
    await files.remove()
  })
})
