import assert from 'node:assert/strict'
import { join } from 'node:path'
import fc from 'fast-check'
import type { IpfsNode } from '../../servers/ipfs/ipfs-node.js'
import { ipfsHttpNode } from '../../servers/ipfs/ipfs-rpc-client.js'
import type { OpenContentStore } from '../../servers/storage/opened-content-store.js'
import { contentOf } from '../../servers/storage/unixfs-blocks.js'
import { reconcile } from '../../servers/vault/admin/reconcile.js'
import { startIpfsRpcServer } from './ipfs-rpc-server.js'
import { findVaultFaults } from './run-vault-command.js'
import { temporaryFolder } from './store-folder.js'
import { until } from './until.js'
import { testVault, VaultUser } from './vault-app.js'
import { walletOf } from './wallet.js'

const DIDS = 4
const KEYS = ['a', 'b', 'ключ']
const CONTENTS = ['', 'x', 'y', 'zz', '💥', 'long enough to matter']
/** So small that random writes are often refused. */
const MODEL_ENV = {
  VAULT_MAX_BYTES_PER_DID: '30',
  VAULT_MAX_ENTRIES_PER_DID: '5',
  // 1,000 sequences take longer than an access token of the default life lasts.
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400'
}
const MAX_BYTES = 30
const MAX_ENTRIES = 5

/** One request of one of the users. The id that it names is that of one of the contents, stored or not. */
interface Operation {
  verb: 'post' | 'put' | 'putOne' | 'delete' | 'deleteOne'
  did: number
  key: number
  content: number
  id: number
}

/** Sequences of 50 operations; writes of one key are likely to meet. */
const operations: fc.Arbitrary<Operation[]> = fc.array(
  fc.record({
    verb: fc.constantFrom('post', 'post', 'post', 'put', 'putOne', 'putOne', 'delete', 'deleteOne', 'deleteOne'),
    did: fc.nat(DIDS - 1),
    key: fc.nat(KEYS.length - 1),
    content: fc.nat(CONTENTS.length - 1),
    id: fc.nat(CONTENTS.length - 1)
  }),
  { minLength: 50, maxLength: 50 }
)

const idOf = (content: string): string => contentOf(Buffer.from(content)).cid
const bytesOf = (contents: readonly string[]): number =>
  contents.reduce((sum, content) => sum + Buffer.byteLength(content), 0)

/** What the specification says that a vault stores: lists of contents by user and key, the last written last. */
class VaultModel {
  readonly #vaults = Array.from({ length: DIDS }, () => new Map<string, string[]>())

  /** Applies an operation, and tells the answer that it should get. */
  apply({ verb, did, key, content, id }: Operation): { status: number; id?: string } {
    const vault = this.#vaults[did]!
    const name = KEYS[key]!
    const before = vault.get(name) ?? []
    const text = CONTENTS[content]!
    const named = CONTENTS[id]!
    if (verb === 'delete' || verb === 'deleteOne') {
      vault.set(name, verb === 'delete' ? [] : before.filter((one) => one !== named))
      return { status: 200 }
    }
    const created = verb === 'post' ? 201 : 200
    if (verb === 'post' && before.includes(text)) return { status: created, id: idOf(text) }
    const stays = verb === 'post' ? before : verb === 'put' ? [] : before.filter((one) => one !== named && one !== text)
    const others = [...vault].flatMap(([one, contents]) => (one === name ? [] : contents))
    const after = [...others, ...stays, text]
    const isMore = {
      bytes: bytesOf(after) > bytesOf([...others, ...before]),
      entries: stays.length + 1 > before.length
    }
    if ((bytesOf(after) > MAX_BYTES && isMore.bytes) || (after.length > MAX_ENTRIES && isMore.entries)) {
      return { status: 507 }
    }
    vault.set(name, [...stays, text])
    return { status: created, id: idOf(text) }
  }

  /** What is under each key of a user. */
  contentsOf(did: number): { key: string; contents: string[] }[] {
    return KEYS.map((key) => ({ key, contents: this.#vaults[did]!.get(key) ?? [] }))
  }

  /** The ids of everything that any user has. */
  storedIds(): string[] {
    return [...new Set(this.#vaults.flatMap((vault) => [...vault.values()].flat().map(idOf)))].sort()
  }
}

/**
 * Runs sequences of 50 operations of 4 DIDs against a vault over HTTP beside a real IPFS node, and compares answers and
 * pins with the model after each, and everything at the end of each sequence.
 *
 * @param contents - storage that is open, of a vault alone. Default: SQLite in a folder
 * @throws Error that names the shortest sequence with a difference
 */
export async function checkVaultModel(sequences: number, contents?: OpenContentStore): Promise<void> {
  const { path, remove } = temporaryFolder()
  const server = await startIpfsRpcServer()
  const node = ipfsHttpNode(server.url)
  const vault = await testVault(MODEL_ENV, { node, folder: join(path, 'vault'), ...(contents && { contents }) })
  try {
    const others = await server.pins()
    const pins = async () => (await server.pins()).filter((pin) => !others.includes(pin))
    const users = await Promise.all(
      Array.from({ length: DIDS }, (_, number) => VaultUser.logIn(vault.listener, walletOf(number + 1)))
    )
    const run = async (sequence: readonly Operation[]): Promise<void> => {
      for (const user of users) {
        const { keys } = (await user.get('keys')).body as { keys: { key: string }[] }
        for (const { key } of keys) await user.delete(encodeURIComponent(key))
      }
      const model = new VaultModel()
      for (const operation of sequence) {
        assert.deepEqual(await perform(users, operation), model.apply(operation))
        // Beyond 2 s, the node is brought in step after the answer.
        await until(async () => (await vault.store.countOpen()) === 0)
        assert.deepEqual(await pins(), model.storedIds())
      }
      for (const [did, user] of users.entries()) await compareUser(user, model.contentsOf(did))
    }
    await fc.assert(fc.asyncProperty(operations, run), { numRuns: sequences })
    const faults = contents
      ? await faultsOf(contents, node)
      : await findVaultFaults({ DATA_DIR: path, IPFS_API_URL: server.url })
    assert.deepEqual(faults, [])
  } finally {
    await vault.close()
    node.close()
    await server.stop()
    remove()
  }
}

/** What `vault reconcile` reports of storage that is open, when something is not in order. */
async function faultsOf({ store, inspection }: OpenContentStore, node: IpfsNode): Promise<string[]> {
  const lines: string[] = []
  const parts = { store, inspection, node, isDryRun: true, acceptsDamage: false }
  return (await reconcile(parts, (line) => void lines.push(line))) ? [] : lines
}

/** Compares all that a user can read with the model. */
async function compareUser(user: VaultUser, inModel: ReturnType<VaultModel['contentsOf']>): Promise<void> {
  for (const { key, contents } of inModel) {
    assert.deepEqual((await user.read(encodeURIComponent(key))).body, contents)
  }
  const { keys } = (await user.get('keys')).body as { keys: { key: string; entries: object[] }[] }
  const expected = inModel
    .filter(({ contents }) => contents.length > 0)
    .map(({ key, contents }): [string, object[]] => [
      key,
      contents.map((content) => ({ id: idOf(content), size: Buffer.byteLength(content) }))
    ])
  assert.deepEqual(new Map(keys.map(({ key, entries }) => [key, entries])), new Map(expected))
  const all = inModel.flatMap(({ contents }) => contents)
  const { used, usedEntries } = (await user.get('storage')).body as Record<string, number>
  assert.deepEqual([used, usedEntries], [bytesOf(all), all.length])
  const { entries } = (await user.get('backup')).body as { entries: { content: string }[] }
  assert.deepEqual(entries.map(({ content }) => content).sort(), all.sort())
}

/** Asks the vault for an operation. */
async function perform(users: readonly VaultUser[], operation: Operation): Promise<{ status: number; id?: string }> {
  const user = users[operation.did]!
  const key = encodeURIComponent(KEYS[operation.key]!)
  const content = CONTENTS[operation.content]!
  const id = idOf(CONTENTS[operation.id]!)
  const { status, body } = await {
    post: () => user.post(key, content),
    put: () => user.put(key, content),
    putOne: () => user.put(`${key}/${id}`, content),
    delete: () => user.delete(key),
    deleteOne: () => user.delete(`${key}/${id}`)
  }[operation.verb]()
  const received = (body as { id?: string }).id
  return { status, ...(received !== undefined && { id: received }) }
}
