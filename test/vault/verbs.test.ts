import { beforeEach, describe, expect, it } from '@jest/globals'
import { testVault, VaultUser, type TestVault } from '../support/vault-app.js'
import { walletOf } from '../support/wallet.js'

/** Cids of a real node, with `--cid-version=1 --raw-leaves`. */
const HELLO = 'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'

let vault: TestVault
let user: VaultUser

beforeEach(async () => {
  vault = await testVault()
  user = await VaultUser.logIn(vault.listener, walletOf(1))
})

describe('POST /:key', () => {
  it('answers 201 with the cid of the content', async () => {
    const answer = await user.post('notes', 'hello').expect(201)
    expect(answer.body).toEqual({ id: HELLO })
    await user.read('notes').expect(200, ['hello'])
  })
})
