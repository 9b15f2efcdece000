import { systemClock } from 'express-did-auth/server-kit'
import { readEnv } from '../config/read-env.js'
import type { ContentStore } from '../content/content-store.js'
import { useExistingContents } from '../content/engine.js'
import { readArguments, UsageError, type CommandLine } from './command-line.js'

const OPTIONS = { allow: { type: 'boolean' }, 'dry-run': { type: 'boolean' } } as const
const NOUNS = { relay: ['file', 'files'], vault: ['entry', 'entries'] } as const
type Nouns = (typeof NOUNS)['relay' | 'vault']

/**
 * Creates the command `takedown <cid or link>`. It removes content of relay or vault, and refuses it from then on. With
 * `--allow`, it accepts the content again. It may run while the server runs, which then removes the pin.
 *
 * @returns the command. Its exit code is 0 if the work is done or not needed, and 1 if parts of the content remain
 * @throws UsageError; StartError if the server has no data
 */
export function createTakedownCommand(server: 'relay' | 'vault'): (commandLine: CommandLine) => Promise<number> {
  return async ({ args, env: variables, out }) => {
    const { values, positionals } = readArguments(args, OPTIONS, [1, Infinity])
    const cid = parseReference(positionals)
    const env = readEnv(variables, server, false, 'operate')
    return useExistingContents(env, async ({ store }) => {
      if (values['dry-run'] === true) out(await plan(store, cid, values.allow === true))
      else if (values.allow === true)
        out((await store.allow(cid)) ? `${cid} is allowed again.` : `${cid} was not taken down.`)
      else return takeDown(store, cid, NOUNS[server], out)
      return 0
    })
  }
}

/** A cid within a link: `relay://<cid>#<key>`, `https://…#r=<cid>.<key>`, `ipfs://<cid>`, `https://…/ipfs/<cid>`. */
const CID_IN_LINK = /(?<![A-Za-z0-9_-])baf[a-z2-7]{56}(?![A-Za-z0-9_-])/g

/** Parses a cid or a link. @throws UsageError that does not quote the link, because the link may contain a key */
function parseReference(references: readonly string[]): string {
  const cids = new Set(references.flatMap((reference) => reference.match(CID_IN_LINK) ?? []))
  const [cid] = cids
  if (cid === undefined || cids.size > 1 || references.length > 1)
    throw new UsageError('Give one cid, or one link that contains a cid')
  return cid
}

async function takeDown(store: ContentStore, cid: string, nouns: Nouns, out: CommandLine['out']): Promise<number> {
  const { removed, remains } = await store.takeDown(cid, 'takedown', systemClock.nowSeconds())
  out(`Removed ${removed} ${nouns[removed === 1 ? 0 : 1]}. ${cid} is refused from now on.`)
  for (const sentence of remains) out(`Parts of it may remain: ${sentence}.`)
  if (!(await store.areSettled([cid]))) out('The running server removes the pin as soon as the IPFS node is available.')
  out('Copies may remain in backups, replicas and their logs, disk snapshots, and on other IPFS nodes.')
  return remains.length === 0 ? 0 : 1
}

async function plan(store: ContentStore, cid: string, isAllow: boolean): Promise<string> {
  const isTakenDown = await store.isTakenDown(cid)
  if (isAllow) return isTakenDown ? `Would allow ${cid} again.` : `${cid} was not taken down.`
  if (isTakenDown) return `${cid} is already taken down.`
  const [content] = await store.readContents([cid])
  if (content === undefined) return `${cid} is not stored. Would refuse it from now on.`
  return `Would remove ${cid} (${content.byteCount} bytes) and refuse it from now on.`
}
