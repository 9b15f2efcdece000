import { expect, it, jest } from '@jest/globals'
import { checkVaultModel } from '../../support/vault-model.js'
import { scaled } from '../../support/time-factor.js'

const RUNS = Number(process.env.MODEL_RUNS ?? 6)

jest.setTimeout(scaled(300_000 + RUNS * 20_000))

it(`the vault answers and stores what its model does, pins included, after each of 50 operations of 4 DIDs, ${RUNS} times`, async () => {
  await expect(checkVaultModel(RUNS)).resolves.toBeUndefined()
})
