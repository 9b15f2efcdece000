import assert from 'node:assert/strict'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import type { IpfsNode } from '../../../servers/ipfs/ipfs-node.js'
import { createIpfsHttpNode } from '../../../servers/ipfs/ipfs-rpc-client.js'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import { reconcile } from '../../../servers/tools/reconcile.js'
import { ContentModel, type ModelOutcome, type ModelVerb } from './content-model.js'
import { startIpfsRpcServer } from '../engines/ipfs-rpc-server.js'
import { findVaultFaults, testVault, VaultUser } from '../servers/vault-app.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { until } from '../fixtures/until.js'
import { createNumberedWallet } from '../fixtures/fixtures.js'

const KEYS = ['a', 'b', 'ключ']
const CONTENTS = ['', 'x', 'y', 'zz', '💥', 'long enough to matter']
/** Quota that is so small that random writes are often refused. */
const QUOTA = { maxBytes: 30, maxEntries: 5 }
const MODEL_ENV = {
  VAULT_MAX_BYTES_PER_DID: String(QUOTA.maxBytes),
  VAULT_MAX_ENTRIES_PER_DID: String(QUOTA.maxEntries),
  // 1,000 sequences take longer than the default lifetime of an access token.
  ACCESS_TOKEN_EXPIRATION_TIME_IN_SECONDS: '86400'
}

const wallets = [1, 2, 3, 4].map(createNumberedWallet)

/** Random sequences of 50 operations of 4 users. With few keys, operations on the same key are likely. */
const operations: fc.Arbitrary<ModelVerb[]> = fc.array(
  fc.record({
    verb: fc.constantFrom(
      'add',
      'add',
      'add',
      'replaceAll',
      'replaceOne',
      'replaceOne',
      'removeAll',
      'removeOne',
      'removeOne'
    ),
    did: fc.constantFrom(...wallets.map(({ did }) => did)),
    key: fc.constantFrom(...KEYS),
    text: fc.constantFrom(...CONTENTS),
    named: fc.constantFrom(...CONTENTS)
  }),
  { minLength: 50, maxLength: 50 }
)

const computeId = (content: string): string => cidOf(Buffer.from(content))

/**
 * Runs sequences of 50 operations of 4 DIDs on a vault over HTTP with a real IPFS node. Compares answers and pins with
 * the model after each operation, and everything at the end of each sequence.
 *
 * @param contents - open storage that only this vault uses. Default: SQLite in a new folder
 * @throws Error with the shortest sequence that has a difference
 */
export async function checkVaultModel(sequences: number, contents?: OpenContentStore): Promise<void> {
  const { path, remove } = temporaryFolder()
  const server = await startIpfsRpcServer()
  const node = createIpfsHttpNode(server.url)
  const vault = await testVault(MODEL_ENV, { node, folder: join(path, 'vault'), ...(contents && { contents }) })
  try {
    const initialPins = await server.pins()
    const pins = async () => (await server.pins()).filter((pin) => !initialPins.includes(pin))
    const users = await Promise.all(wallets.map((wallet) => VaultUser.logIn(vault.listener, wallet)))
    const run = async (sequence: readonly ModelVerb[]): Promise<void> => {
      for (const user of users) for (const key of KEYS) await user.delete(encodeURIComponent(key))
      const model = new ContentModel(QUOTA)
      for (const operation of sequence) {
        const user = users.find(({ did }) => did === operation.did)!
        assert.deepEqual(await perform(user, operation), toAnswer(operation, model.apply(operation)))
        const expected = model.stored().map(computeId).sort()
        const hasExpectedPins = async (): Promise<boolean> =>
          (await vault.store.countOpen()) === 0 && isDeepStrictEqual(await pins(), expected)
        // If a collector has just locked a content, only its next round deletes the content, up to 72 s later.
        if (!(await hasExpectedPins())) await vault.store.collectGarbage(Math.floor(Date.now() / 1_000))
        // The vault answers after at most 2 s. A slower node gets its pins after the answer.
        await until(hasExpectedPins)
      }
      for (const user of users) await compareUser(user, model)
    }
    await fc.assert(fc.asyncProperty(operations, run), { numRuns: sequences, includeErrorInReport: true })
    const faults = contents
      ? await findFaults(contents, node)
      : await findVaultFaults({ DATA_DIR: path, IPFS_API_URL: server.url })
    assert.deepEqual(faults, [])
  } finally {
    await vault.close()
    node.close()
    await server.stop()
    remove()
  }
}

/** Returns the report of `vault reconcile` about open storage; empty: there is no fault. */
async function findFaults({ store, inspection }: OpenContentStore, node: IpfsNode): Promise<string[]> {
  const lines: string[] = []
  const parts = { store, inspection, node, isDryRun: true, acceptsDamage: false }
  return (await reconcile(parts, (line) => void lines.push(line))) ? [] : lines
}

/** Compares all that a user can read with the model. */
async function compareUser(user: VaultUser, model: ContentModel): Promise<void> {
  const inModel = KEYS.map((key) => ({ key, contents: model.textsOf(user.did, key) }))
  for (const { key, contents } of inModel) {
    assert.deepEqual((await user.read(encodeURIComponent(key))).body, contents)
  }
  const { keys } = (await user.get('keys')).body as { keys: { key: string; entries: object[] }[] }
  const expected = inModel
    .filter(({ contents }) => contents.length > 0)
    .map(({ key, contents }): [string, object[]] => [
      key,
      contents.map((content) => ({ id: computeId(content), size: Buffer.byteLength(content) }))
    ])
  assert.deepEqual(new Map(keys.map(({ key, entries }) => [key, entries])), new Map(expected))
  const { used, usedEntries } = (await user.get('storage')).body as Record<string, number>
  assert.deepEqual({ byteCount: used, entryCount: usedEntries }, model.readUsage(user.did))
  const { entries } = (await user.get('backup')).body as { entries: { content: string }[] }
  assert.deepEqual(entries.map(({ content }) => content).sort(), inModel.flatMap(({ contents }) => contents).sort())
}

interface Answer {
  readonly status: number
  readonly id?: string
}

function toAnswer({ verb, text }: ModelVerb, outcome: ModelOutcome): Answer {
  if (outcome === 'ERR_STORAGE_FULL') return { status: 507 }
  return verb.startsWith('remove') ? { status: 200 } : { status: verb === 'add' ? 201 : 200, id: computeId(text) }
}

/** Executes an operation on the vault over HTTP. */
async function perform(user: VaultUser, { verb, key: name, text, named }: ModelVerb): Promise<Answer> {
  const [key, id] = [encodeURIComponent(name), computeId(named)]
  const { status, body } = await {
    add: () => user.post(key, text),
    replaceAll: () => user.put(key, text),
    replaceOne: () => user.put(`${key}/${id}`, text),
    removeAll: () => user.delete(key),
    removeOne: () => user.delete(`${key}/${id}`)
  }[verb]()
  const received = (body as { id?: string }).id
  return { status, ...(received !== undefined && { id: received }) }
}
