import { es256kSigner, setupDidAuth, type Signer, type Store } from 'express-did-auth'
import { appShell, sealed, type ServerApp, type ShellParts } from '../shared/http/app-shell.js'
import { authRoutes } from '../shared/login/auth-routes.js'
import { ContentStore } from '../shared/content/content-store.js'
import type { SqliteFile } from '../shared/content/database.js'
import { DiskSpace, type UsedPercent } from '../shared/content/disk-space.js'
import { didAuthConfig, didAuthDependencies } from '../shared/login/did-auth.js'
import { GroupCommit } from '../shared/content/group-commit.js'
import type { IpfsNode } from '../shared/ipfs/ipfs-node.js'
import type { Dependency } from '../shared/watch/readiness.js'
import { errorSender } from '../shared/http/server-error.js'
import { LostContent } from './reads/lost-content.js'
import { PinIntents } from './pins/pin-intents.js'
import { PinOutbox } from './pins/pin-outbox.js'
import { VaultIndex } from './vault-index.js'
import { vaultRoutes } from './vault-routes.js'
import { Vault } from './vault.js'

/** What the vault server is built of. */
export interface VaultServerParts extends ShellParts {
  store: Store
  /** Content, index and pins. */
  database: SqliteFile
  node: IpfsNode | undefined
  usedPercent: UsedPercent
}

/** Builds the vault server. Store and database are their giver's to close. */
export function vaultApp(parts: VaultServerParts): ServerApp {
  const { env, store, database, node, log } = parts
  const signer = es256kSigner(parts.identity.privateKey)
  const index = new VaultIndex(database)
  const app = appShell(parts, authRoutes, dependenciesOf(parts, signer, index))
  const requireDid = setupDidAuth(app, didAuthConfig(parts, store, signer))

  const contents = new ContentStore(database)
  const commits = new GroupCommit(database)
  const quota = { byteCount: env.VAULT_MAX_BYTES_PER_DID, entryCount: env.VAULT_MAX_ENTRIES_PER_DID }
  const intents = new PinIntents(database, commits)
  const outbox =
    node === undefined ? undefined : new PinOutbox({ intents, node, read: (cid) => contents.read(cid), log })
  const sendError = errorSender(parts.serviceUrl, log)
  vaultRoutes(app, {
    requireDid,
    sendError,
    vault: new Vault({ index, contents, commits, intents, outbox, quota }),
    reading: { index, contents, lost: new LostContent({ index, contents, commits, node, log }) },
    disk: new DiskSpace(parts.usedPercent),
    quota,
    maxContentBytes: env.VAULT_MAX_CONTENT_BYTES
  })
  outbox?.start()
  const close = async (): Promise<void> => {
    await outbox?.stop()
    await requireDid.close()
  }
  return { listener: sealed(app, sendError), ready: requireDid.ready, close }
}

/** The store is one word for two databases: a vault without either is of no use. */
function dependenciesOf({ env, store, node }: VaultServerParts, signer: Signer, index: VaultIndex): Dependency[] {
  const check = async (): Promise<void> => {
    await store.ping()
    index.ping()
  }
  const own = didAuthDependencies(env, store, signer).map((one) => (one.name === 'store' ? { ...one, check } : one))
  return node === undefined ? own : [...own, { name: 'ipfs', isNeeded: false, check: (signal) => node.ping(signal) }]
}
