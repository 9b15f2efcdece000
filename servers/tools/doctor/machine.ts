import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { didOfPrivateKey, loadCurve } from 'express-did-auth'
import { addressOfDid, isEthrDid, networkOfDid } from 'express-did-auth/protocol'
import { toNetwork } from '../../config/env-schema.js'
import type { ServerEnv } from '../../config/read-env.js'
import { findPrivateKey } from '../../config/service-identity.js'
import { describeReason } from '../../config/startup-error.js'
import { MAX_USED_PERCENT, createDiskUsage, type UsedPercent } from '../../content/disk-space.js'
import { getDataFolder } from '../../content/engine.js'
import { change, type Finding, type Findings } from './finding.js'

/** Parts of the machine that tests replace. */
export interface MachineOptions {
  usedPercent?: (folder: string) => ReturnType<UsedPercent>
}

/** Checks the data folder and the key of a server. It writes a small file into the folder and deletes it. */
export async function checkMachine(env: ServerEnv, options: MachineOptions = {}): Promise<Findings> {
  return [await findStorageFault(env, options), await findForeignDid(env)]
}

async function findStorageFault(
  env: ServerEnv,
  { usedPercent = readDiskUsage }: MachineOptions
): Promise<Findings[number]> {
  const remedy =
    'free space on that disk, or DATA_DIR=<folder with free space that the user of the servers may write to>'
  for (const folder of [env.DATA_DIR, getDataFolder(env)].filter((path) => existsSync(path))) {
    try {
      writeProbe(folder)
    } catch (error) {
      return change('data-dir', `The server cannot write to ${folder}: ${describeReason(error)}`, remedy)
    }
  }
  // Content is not on this disk if a database is configured.
  if (env.DATABASE_URL !== undefined) return false
  const percent = Math.floor(await usedPercent(env.DATA_DIR).catch(() => 0))
  const isFull = percent >= MAX_USED_PERCENT
  return isFull && change('disk-full', `The disk of ${env.DATA_DIR} (DATA_DIR) is ${percent} % full`, remedy)
}

/** Reads the disk usage of a folder. For a missing folder, it reads that of the nearest existing parent. */
function readDiskUsage(folder: string): ReturnType<UsedPercent> {
  const canBeRead = existsSync(folder) || dirname(folder) === folder
  return canBeRead ? createDiskUsage(folder)() : readDiskUsage(dirname(folder))
}

/** Writes a file of the size of a disk block, so that the write fails on a full disk, and deletes it. */
function writeProbe(folder: string): void {
  const file = join(folder, `doctor-${process.pid}.tmp`)
  try {
    writeFileSync(file, Buffer.alloc(4_096), { mode: 0o600, flush: true })
  } finally {
    rmSync(file, { force: true })
  }
}

/** Finds a SERVICE_DID with the address of another key. DIDs of other methods contain no address. */
async function findForeignDid(env: ServerEnv): Promise<Finding | false> {
  const { SERVICE_DID: serviceDid, NETWORK_NAME = 'rsk' } = env
  const network = toNetwork(NETWORK_NAME)
  const key = findPrivateKey(env)
  if (serviceDid === undefined || key === undefined || !isEthrDid(serviceDid)) return false
  const didNetwork = networkOfDid(serviceDid) ?? network
  const keyDid = await didOfPrivateKey(key, didNetwork)
  if (addressOfDid(serviceDid, await loadCurve()) === addressOfDid(keyDid)) return false
  const problem = `SERVICE_DID does not belong to PRIVATE_KEY, whose DID is ${keyDid}`
  const remedy =
    didNetwork === network ? 'remove SERVICE_DID, so that the DID is derived from PRIVATE_KEY' : `SERVICE_DID=${keyDid}`
  return change('service-did', problem, remedy)
}
