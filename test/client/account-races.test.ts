import { beforeEach, describe, expect, it } from '@jest/globals'
import type { ClientStorage, DidAuthClient } from 'express-did-auth/client'
import { failureOf } from '../support/client-error.js'
import {
  type ClientService,
  CookieJar,
  fakeLocks,
  plainWallet,
  setGlobals,
  sharedStorage,
  startClientService
} from '../support/client-service.js'
import { until } from '../support/until.js'
import { walletOf } from '../support/wallet.js'

const bob = walletOf(2)

let service: ClientService

/** Who the service thinks that the client is. */
async function userOf(auth: DidAuthClient): Promise<string> {
  const { user } = (await (await auth.fetch('/me')).json()) as { user: { did: string } }
  return user.did
}

/** A client of Alice whose refresh has been answered by the service, and has not arrived. */
async function refreshing(options = {}) {
  const ended: string[] = []
  const auth = await service.outdated({
    storage: sharedStorage(),
    onAccountChange: 'ignore',
    onSignedOut: ({ reason }) => void ended.push(reason),
    ...options
  })
  const { given, release } = service.hold('/refresh-token')
  const late = failureOf(auth.fetch('/me'))
  await given
  return { auth, ended, late, release }
}

describe.each(['header', 'cookie'] as const)('a login as another user, with the mode %s', (mode) => {
  const options = () => (mode === 'cookie' ? { mode, fetch: new CookieJar().wrap(service.fetch) } : {})

  beforeEach(async () => {
    setGlobals({ window: {}, navigator: { locks: fakeLocks() } })
    service = await startClientService({ useCookies: mode === 'cookie' })
  })

  it('stays where a refresh of the user before is answered after it', async () => {
    const { auth, ended, late, release } = await refreshing(options())
    const login = auth.logIn({ wallet: plainWallet(bob) })
    await until(() => service.count('/request-auth') === 2)
    release()
    expect((await login).did).toBe(bob.did)
    await late
    expect(auth.session?.did).toBe(bob.did)
    expect(await userOf(auth)).toBe(bob.did)
    expect(ended).toEqual([])
  })

  it('is not ended by the log out of the user before, which waited', async () => {
    const { auth, late, release } = await refreshing(options())
    const out = auth.logOut()
    const login = auth.logIn({ wallet: plainWallet(bob) })
    release()
    await Promise.all([out, login, late])
    expect(auth.session?.did).toBe(bob.did)
    expect(await userOf(auth)).toBe(bob.did)
  })

  it('stays where what was known of the user before is read after it', async () => {
    const before = { ...options(), storage: sharedStorage() }
    await service.client(before).logIn()
    let read = (): void => undefined
    const slow = new Promise<void>((resolve) => (read = resolve))
    const { get } = before.storage
    const storage: ClientStorage = { ...before.storage, get: (key) => slow.then(() => get(key)) }
    const auth = service.client({ ...before, storage })
    const login = auth.logIn({ wallet: plainWallet(bob) })
    await until(() => service.count('/request-auth') === 2)
    read()
    await login
    await auth.ready
    expect(auth.session?.did).toBe(bob.did)
    expect(await userOf(auth)).toBe(bob.did)
  })
})
