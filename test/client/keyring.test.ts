import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { DidAuthClient, type PlainWallet } from 'express-did-auth-client'
import { createKeyring, openKeyring, recovery, wallet, type Unlocker } from 'express-did-auth-client/keyring'
import { VaultClient, type VaultClientOptions } from 'express-did-auth-client/vault'
import { createDecipheriv, createHmac, hkdfSync } from 'node:crypto'
import { expectClientError as expectError, listenAt, type HttpAddress } from '../support/fixtures/client-error.js'
import { createPlainWallet, startClientService } from '../support/servers/client-service.js'
import { createWallet, testVault, type TestVault } from '../support/servers/vault-app.js'
import { createWatchedWallet } from '../support/fixtures/fixtures.js'

const KEY = 'did-auth.keyring'

let [vault, other] = [] as unknown as [TestVault, TestVault]
let [address, elsewhere] = [] as unknown as [HttpAddress, HttpAddress]

beforeAll(async () => {
  ;[vault, other] = await Promise.all([testVault(), testVault()])
  ;[address, elsewhere] = await Promise.all([listenAt(vault.listener), listenAt(other.listener)])
})

afterAll(async () => {
  await Promise.all([address.close(), elsewhere.close()])
  await Promise.all([vault.close(), other.close()])
})

type Stored = { v: number; mac: string; slots: Record<string, string | number>[] }

/** Returns a user with a wallet, logged in at a vault. `sent` contains all requests. */
async function createUser(signer = createWallet(), { url } = address) {
  const plainWallet = createPlainWallet(signer)
  const auth = new DidAuthClient({ url, wallet: plainWallet, domain: 'vault.example' })
  await auth.logIn()
  const sent: string[] = []
  const fetch: VaultClientOptions['fetch'] = (path, init) => {
    sent.push(`${path} ${JSON.stringify(init)}`)
    return auth.fetch(path, init)
  }
  const client = new VaultClient({ auth, fetch })
  const read = async (): Promise<Stored> => JSON.parse((await client.get(KEY)).contents[0]!)
  const write = (keyring: unknown) => client.replace(KEY, JSON.stringify(keyring))
  return { signer, plainWallet, auth, did: signer.did, client, sent, read, write }
}

/** Returns a user with a keyring that opens by the code and by these unlockers. */
async function createNewKeyring(unlockersOf: (plainWallet: PlainWallet) => Unlocker[] = () => []) {
  const user = await createUser()
  const { key, recoveryCode } = await createKeyring({ vault: user.client, unlockers: unlockersOf(user.plainWallet) })
  const open = (unlock: Unlocker = recovery(recoveryCode)) => openKeyring({ vault: user.client, unlock })
  return { ...user, key, recoveryCode, open }
}

describe('createKeyring and openKeyring', () => {
  it('open by the code or by the wallet, and the key decrypts the notes', async () => {
    const { auth, plainWallet, key, recoveryCode, open } = await createNewKeyring((signer) => [wallet(signer)])
    expect(key).toHaveLength(32)
    await new VaultClient({ auth, encrypt: { key } }).add('notes', 'Buy oak')
    for (const unlock of [recovery(recoveryCode), wallet(plainWallet)]) {
      const opened = await open(unlock)
      expect(opened.key).toEqual(key)
      expect(opened.slots.map(({ type, label }) => [type, label])).toEqual([
        ['recovery', 'recovery'],
        ['wallet', 'wallet']
      ])
      const notes = new VaultClient({ auth, encrypt: { key: opened.key } })
      expect((await notes.get('notes')).contents).toEqual(['Buy oak'])
    }
  })

  it('create a new key each time', async () => {
    expect((await createNewKeyring()).key).not.toEqual((await createNewKeyring()).key)
  })

  it('store the documented form, which another implementation opens', async () => {
    const { did, key, recoveryCode, read } = await createNewKeyring()
    const { v, slots, mac } = await read()
    const [{ id, type, label, createdAt, salt, iv, wrapped }] = slots as [Record<string, string>]
    expect([v, slots.length, type, label]).toEqual([1, 1, 'recovery', 'recovery'])
    expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(Math.abs(Number(createdAt) - Date.now() / 1_000)).toBeLessThan(600)
    const bytes = (text = '') => Buffer.from(text, 'base64url')
    const code = recoveryCode.replaceAll('-', '').slice(0, 32)
    const wrapping = Buffer.from(hkdfSync('sha256', code, bytes(salt), 'did-auth keyring 1', 32))
    const cipher = createDecipheriv('aes-256-gcm', wrapping, bytes(iv))
    cipher.setAAD(Buffer.from(`${did}\n${id!}\nrecovery`)).setAuthTag(bytes(wrapped).subarray(32))
    expect(Buffer.concat([cipher.update(bytes(wrapped).subarray(0, 32)), cipher.final()])).toEqual(Buffer.from(key))
    const macKey = Buffer.from(hkdfSync('sha256', key, '', 'did-auth keyring mac 1', 32))
    const text = JSON.stringify([1, did, [[id, type, label, createdAt, salt, iv, wrapped]]])
    expect(mac).toBe(createHmac('sha256', macKey).update(text).digest('base64url'))
  })

  it('stay readable if the vault client encrypts: it never encrypts the keyring again', async () => {
    const { auth, client } = await createUser()
    const encrypting = new VaultClient({ auth, encrypt: { key: new Uint8Array(32) } })
    const { key, recoveryCode } = await createKeyring({ vault: encrypting })
    for (const each of [client, encrypting]) {
      expect((await openKeyring({ vault: each, unlock: recovery(recoveryCode) })).key).toEqual(key)
    }
    expect((await encrypting.backup()).entries.map((entry) => entry.key)).toEqual([KEY])
  })

  it('create a keyring once: KEYRING_EXISTS, even if two devices create it at once', async () => {
    const { client } = await createNewKeyring()
    await expectError(createKeyring({ vault: client }), { code: 'KEYRING_EXISTS' })
    const { client: fresh } = await createUser()
    const outcomes = await Promise.allSettled([createKeyring({ vault: fresh }), createKeyring({ vault: fresh })])
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'KEYRING_EXISTS' } })
  })

  // Cause: when the response to the write was lost, the code of the keyring was lost too.
  it('create the keyring if the response to its write was lost', async () => {
    const { auth } = await createUser()
    const fetch: VaultClientOptions['fetch'] = async (path, init) => {
      const response = await auth.fetch(path, init)
      if (init?.method === 'PUT') throw new TypeError('fetch failed')
      return response
    }
    const vault = new VaultClient({ auth, fetch })
    const { key, recoveryCode } = await createKeyring({ vault })
    expect((await openKeyring({ vault, unlock: recovery(recoveryCode) })).key).toEqual(key)
  })

  it('do not create one if another user logs in while the first is prompted', async () => {
    const { auth, client } = await createUser()
    const slow = {
      type: 'passkey',
      secret: async () => {
        await auth.logIn({ wallet: createPlainWallet(createWallet()) })
        return new Uint8Array(32)
      }
    } as const
    await expectError(createKeyring({ vault: client, unlockers: [slow] }), { code: 'NOT_SIGNED_IN' })
    expect(await client.keys()).toEqual([])
  })

  it('throw KEYRING_MISSING if there is no keyring', async () => {
    const { client } = await createUser()
    await expectError(openKeyring({ vault: client, unlock: recovery() }), { code: 'KEYRING_MISSING' })
  })

  it('open without a login: a user whose wallet is lost reads the notes with the code', async () => {
    const { auth, did, key, recoveryCode } = await createNewKeyring()
    await new VaultClient({ auth, encrypt: { key } }).add('notes', 'Buy oak')
    const visitor = new DidAuthClient({ url: address.url })
    const vault = new VaultClient({ auth: visitor })
    const opened = await openKeyring({ vault, unlock: recovery(recoveryCode), did })
    const notes = new VaultClient({ auth: visitor, encrypt: { key: opened.key } })
    expect((await notes.get('notes', did)).contents).toEqual(['Buy oak'])
    await expectError(opened.add(recovery(), 'new'), { code: 'NOT_SIGNED_IN' })
  })

  it('add and remove ways to open, but not the last one', async () => {
    const { plainWallet, key, recoveryCode, open } = await createNewKeyring()
    const opened = await open()
    await opened.add(wallet(plainWallet), 'My wallet')
    const paper = recovery()
    await opened.add(paper, 'In the safe')
    expect(opened.slots.map(({ label }) => label)).toEqual(['recovery', 'My wallet', 'In the safe'])
    await opened.remove(opened.slots[0]!.id)
    await opened.remove('not there')
    await expectError(open(recovery(recoveryCode)), { code: 'LOCKED' })
    expect((await open(paper)).key).toEqual(key)
    const reopened = await open(wallet(plainWallet))
    expect(reopened.slots).toEqual(opened.slots)
    await reopened.remove(reopened.slots[1]!.id)
    await expect(reopened.remove(reopened.slots[0]!.id)).rejects.toThrow(TypeError)
    expect((await open(wallet(plainWallet))).slots).toHaveLength(1)
  })

  it('keep the root key if the caller wipes the key', async () => {
    const { plainWallet, key, open } = await createNewKeyring()
    const opened = await open()
    opened.key.fill(0)
    await opened.add(wallet(plainWallet), 'My wallet')
    expect((await open(wallet(plainWallet))).key).toEqual(key)
  })

  it('accept labels of 1 to 64 characters without control characters, and at most 8 KiB', async () => {
    const { open, sent } = await createNewKeyring()
    const opened = await open()
    const writes = sent.length
    for (const label of ['', 'a'.repeat(65), 'a\nb']) {
      await expect(opened.add(recovery(), label)).rejects.toThrow(TypeError)
    }
    expect(sent).toHaveLength(writes)
    let count = 1
    const fill = async (): Promise<void> => {
      for (; count < 100; count += 1) await opened.add(recovery(), '🌳'.repeat(32))
    }
    await expectError(fill(), { code: 'TOO_LARGE' })
    expect(count).toBeGreaterThan(15)
    expect((await open()).slots).toHaveLength(count)
  })
})

describe('Keyring.add on two devices at once', () => {
  it('succeeds on both: the later one reads again, and keeps the change of the other', async () => {
    const { plainWallet, client, sent, key, open } = await createNewKeyring()
    const [first, second] = await Promise.all([open(), open()])
    const paper = recovery()
    await first.add(wallet(plainWallet), 'Wallet of the first')
    await second.add(paper, 'Paper of the second')
    // One PUT creates the keyring. The first device sends one, and the second device two, of which one was refused.
    expect(sent.filter((request) => request.includes('"PUT"'))).toHaveLength(4)
    expect(second.slots.map(({ label }) => label)).toEqual(['recovery', 'Wallet of the first', 'Paper of the second'])
    for (const unlock of [wallet(plainWallet), paper]) {
      expect((await openKeyring({ vault: client, unlock })).key).toEqual(key)
    }
    await Promise.all([first.remove(first.slots[0]!.id), second.remove(second.slots[1]!.id)])
    expect((await open(paper)).slots.map(({ label }) => label)).toEqual(['Paper of the second'])
  })

  it('fails with CONFLICT if the keyring changed twice in the meantime', async () => {
    const { client, recoveryCode, open } = await createNewKeyring()
    const meddler = await open()
    const busy = {
      did: client.did,
      get: client.get.bind(client),
      replace: async (...args: Parameters<VaultClient['replace']>) => {
        await meddler.add(recovery(), 'faster')
        return client.replace(...args)
      }
    }
    const opened = await openKeyring({ vault: busy, unlock: recovery(recoveryCode) })
    await expectError(opened.add(recovery(), 'late'), { code: 'CONFLICT' })
    expect((await open()).slots.map(({ label }) => label)).toEqual(['recovery', 'faster', 'faster'])
  })

  it('cannot remove the last two slots', async () => {
    const { open } = await createNewKeyring()
    const first = await open()
    await first.add(recovery(), 'other')
    const second = await open()
    await first.remove(first.slots[0]!.id)
    await expect(second.remove(second.slots[1]!.id)).rejects.toThrow(TypeError)
  })
})

describe('openKeyring of a keyring that the vault changed', () => {
  const second =
    (fields: object) =>
    ({ slots, ...rest }: Stored): object => ({ ...rest, slots: [slots[0], { ...slots[1], ...fields }] })
  const changes: [string, (stored: Stored, old: Stored) => unknown][] = [
    ['a label', second({ label: 'x' })],
    ['the type of a slot', second({ type: 'passkey' })],
    ['an id', second({ id: '0'.repeat(32) })],
    ['a ciphertext', second({ wrapped: 'A'.repeat(64) })],
    ['a salt', second({ salt: 'A'.repeat(43) })],
    ['a time', second({ createdAt: 1 })],
    ['the mac', (stored) => ({ ...stored, mac: 'A'.repeat(43) })],
    ['no mac', ({ v, slots }) => ({ v, slots })],
    ['the version', (stored) => ({ ...stored, v: 2 })],
    ['the order', ({ slots, ...rest }) => ({ ...rest, slots: slots.toReversed() })],
    ['a missing slot', ({ slots, ...rest }) => ({ ...rest, slots: slots.slice(0, 1) })],
    ['an added slot', ({ slots, ...rest }, old) => ({ ...rest, slots: [...slots, old.slots[1]] })],
    ['a slot twice', ({ slots, ...rest }) => ({ ...rest, slots: [...slots, slots[1]] })],
    ['no slots', (stored) => ({ ...stored, slots: {} })],
    ['a slot that is null', ({ slots, ...rest }) => ({ ...rest, slots: [...slots, null] })],
    ['a number for a text', second({ label: 7 })],
    ['a text for a number', second({ createdAt: '7' })],
    ['text instead of a JSON object', () => 'keyring'],
    ['more than 8 KiB', (stored) => ({ ...stored, more: 'a'.repeat(8_192) })]
  ]

  it.each(changes)('throws KEYRING_TAMPERED: %s', async (_what, change) => {
    const { plainWallet, open, read, write } = await createNewKeyring((signer) => [wallet(signer)])
    const old = await read()
    const opened = await open()
    await opened.remove(opened.slots[1]!.id)
    await opened.add(wallet(plainWallet), 'again')
    await write(change(await read(), old))
    await expectError(open(), { code: 'KEYRING_TAMPERED' })
    await expectError(opened.add(recovery(), 'new'), { code: 'KEYRING_TAMPERED' })
  })

  it('detects a second entry, and throws LOCKED if the slot to open was replaced', async () => {
    const { client, open, read, write } = await createNewKeyring()
    const stored = await read()
    await client.add(KEY, '{}')
    await expectError(open(), { code: 'KEYRING_TAMPERED' })
    await write({ ...stored, slots: [{ ...stored.slots[0], type: 'recovery', id: '0'.repeat(32) }] })
    await expectError(open(), { code: 'LOCKED' })
  })

  it('detects the keyring of another user', async () => {
    const { read, recoveryCode } = await createNewKeyring()
    const victim = await createUser()
    await victim.write(await read())
    await expectError(openKeyring({ vault: victim.client, unlock: recovery(recoveryCode) }), { code: 'LOCKED' })
  })
})

describe('recovery', () => {
  it('generates codes of 32 digits in groups of four with a check symbol, each different', () => {
    const form = /^(?:[0-9A-HJKMNP-TV-Z]{4}-){8}[0-9A-HJKMNP-TV-Z*~$=U]$/
    const codes = Array.from({ length: 200 }, () => recovery().code)
    expect(codes.filter((code) => !form.test(code))).toEqual([])
    expect(new Set(codes).size).toBe(200)
  })

  it.each([
    ['zeros', '0'.repeat(33)],
    ['the largest number, 2^160 - 1, which is 8 modulo 37', `${'Z'.repeat(32)}8`],
    ['36, whose check symbol is no digit', `${'0'.repeat(30)}14U`],
    ['O for 0, I and L for 1, spaces, lower case', `${'o'.repeat(30)} iL-~`]
  ])('accepts %s', (_what, code) =>
    expect(recovery(code).secret({ id: '', createdAt: 0 }, false)).resolves.toHaveLength(32)
  )

  it('throws LOCKED for another code, a wrong digit or length, two swapped digits, and no code', async () => {
    const { recoveryCode, open, sent } = await createNewKeyring()
    const text = recoveryCode.replaceAll('-', '')
    expect((await open(recovery(text.toLowerCase()))).slots).toHaveLength(1)
    const wrongDigit = text.startsWith('7') ? '8' : '7'
    const position = Array.from(text).findIndex((digit, index) => digit !== text[index + 1])
    const swapped = text.slice(0, position) + text[position + 1]! + text[position]! + text.slice(position + 2)
    for (const code of [
      recovery().code,
      `${text}0`,
      text.slice(1),
      wrongDigit + text.slice(1),
      swapped,
      'ü'.repeat(33),
      ''
    ]) {
      await expectError(open(recovery(code)), { code: 'LOCKED' })
    }
    expect(sent.join()).not.toContain(text.slice(0, 32))
  })
})

describe('wallet', () => {
  it('refuses a wallet whose signatures differ each time, and writes nothing', async () => {
    const { plainWallet, client, sent } = await createUser()
    let count = 0
    const fickle: PlainWallet = {
      ...plainWallet,
      signMessage: (text) => plainWallet.signMessage(`${text}${(count += 1)}`)
    }
    await expectError(createKeyring({ vault: client, unlockers: [wallet(fickle)] }), {
      code: 'WALLET_NOT_DETERMINISTIC'
    })
    expect([count, sent.filter((request) => request.includes('PUT'))]).toEqual([2, []])
  })

  it('prompts twice for a new slot and once to open; the text names page and slot', async () => {
    const { plainWallet, signer, client } = await createUser()
    const { signed: texts, ...watched } = createWatchedWallet(signer)
    await createKeyring({ vault: client, unlockers: [wallet(watched, { domain: 'app.example' })] })
    expect(texts).toHaveLength(2)
    const { slots } = await openKeyring({ vault: client, unlock: wallet(watched, { domain: 'app.example' }) })
    expect(texts).toHaveLength(3)
    const [, { id, createdAt }] = slots as [unknown, { id: string; createdAt: number }]
    expect(new Set(texts)).toEqual(
      new Set([
        `app.example wants you to sign in with your Ethereum account:
${plainWallet.address}

Opens the keys of your vault. Sign it only where you open them.

URI: urn:did-auth-keyring:${id}
Version: 1
Chain ID: 1
Nonce: ${id}
Issued At: ${new Date(createdAt * 1_000).toISOString()}`
      ])
    )
    await expectError(openKeyring({ vault: client, unlock: wallet(plainWallet, { domain: 'evil.example' }) }), {
      code: 'LOCKED'
    })
  })

  it('throws LOCKED for another account, and opens with one of several wallets', async () => {
    const others = [createPlainWallet(createWallet()), createPlainWallet(createWallet())]
    const { plainWallet, key, open } = await createNewKeyring((signer) => [wallet(others[0]!), wallet(signer)])
    await expectError(open(wallet(others[1]!)), { code: 'LOCKED' })
    expect((await open(wallet(plainWallet))).key).toEqual(key)
  })

  it('signs a text that cannot log in at the library: its URI has no host', async () => {
    const service = await startClientService({ siwe: { domains: ['service.example'] } })
    const signer = createWallet()
    const { client } = await createUser(signer)
    const watched = createWatchedWallet(signer)
    await createKeyring({ vault: client, unlockers: [wallet(watched, { domain: 'service.example' })] })
    const [message = ''] = watched.signed
    const answer = await fetch(`${service.url}/siwe/verify`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/problem+json' },
      body: JSON.stringify({ message, signature: signer.personalSign(message) })
    })
    expect([answer.status, await answer.json()]).toEqual([401, expect.objectContaining({ code: 'ERR_MESSAGE_DOMAIN' })])
  })
})

describe('the bytes that createKeyring sends', () =>
  it('contain neither the key, nor the code, nor the signature', async () => {
    const { signer, key, recoveryCode, sent, open } = await createNewKeyring((plainWallet) => [wallet(plainWallet)])
    const watched = createWatchedWallet(signer)
    const opened = await open(wallet(watched))
    const paper = recovery()
    await opened.add(paper, 'Paper')
    await opened.remove(opened.slots[0]!.id)
    const all = sent.join('\n')
    expect(all.length).toBeGreaterThan(2_000)
    const forms = (['hex', 'base64', 'base64url'] as const).map((form) => Buffer.from(key).toString(form))
    const signatures = watched.signed.map((text) => signer.personalSign(text).slice(2, 130))
    expect(signatures.length).toBeGreaterThan(0)
    const secrets = [...forms, JSON.stringify([...key]).slice(1, -1), ...signatures]
    const codes = [recoveryCode, paper.code].flatMap((code) => [code, code.replaceAll('-', '').slice(0, 32)])
    expect([...secrets, ...codes].filter((secret) => all.toLowerCase().includes(secret.toLowerCase()))).toEqual([])
  }))

describe('VaultClient.restore at another vault', () => {
  it('stores keyring and ciphertexts unchanged: the code opens them, and the notes are readable', async () => {
    const { auth, client, key, recoveryCode, signer } = await createNewKeyring()
    const notes = new VaultClient({ auth, encrypt: { key } })
    await notes.add('notes', 'Buy oak')
    await notes.add('notes', 'Ask Ada')
    const backup = JSON.parse(JSON.stringify(await client.backup({ raw: true })))
    expect(JSON.stringify(backup)).not.toContain('oak')
    const userElsewhere = await createUser(signer, elsewhere)
    expect(await userElsewhere.client.restore(backup)).toBe(3)
    const opened = await openKeyring({ vault: userElsewhere.client, unlock: recovery(recoveryCode) })
    const moved = new VaultClient({ auth: userElsewhere.auth, encrypt: { key: opened.key } })
    expect((await moved.get('notes')).contents).toEqual(['Buy oak', 'Ask Ada'])
    expect(await userElsewhere.client.backup({ raw: true })).toEqual(backup)
  })

  it('refuses to replace a keyring: KEYRING_EXISTS, and writes nothing', async () => {
    const { client, signer } = await createNewKeyring()
    await client.add('notes', 'a')
    const backup = await client.backup({ raw: true })
    const userElsewhere = await createUser(signer, elsewhere)
    await createKeyring({ vault: userElsewhere.client })
    await expectError(userElsewhere.client.restore(backup), { code: 'KEYRING_EXISTS' })
    expect((await userElsewhere.client.keys()).map(({ key }) => key)).toEqual([KEY])
  })
})
