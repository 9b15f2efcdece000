import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { didOfPrivateKey, loadCurve } from 'express-did-auth'
import { addressOfDid, isEthrDid, networkOfDid } from 'express-did-auth/protocol'
import { toNetwork } from '../../config/env-schema.js'
import type { ServerEnv } from '../../config/read-env.js'
import { findPrivateKey } from '../../config/service-identity.js'
import { describeReason } from '../../config/startup-error.js'
import { MAX_USED_PERCENT, createDiskUsage, type UsedPercent } from '../../storage/disk-space.js'
import { getDataFolder } from '../../storage/engine.js'
import { change, type Finding, type Found } from './finding.js'

/** Part of the machine that a test replaces. */
export interface MachineDependencies {
  usedPercent?: (folder: string) => ReturnType<UsedPercent>
}

/** Examines the folder of a server and its key. It writes one small file there, and deletes it. */
export async function checkMachine(env: ServerEnv, dependencies: MachineDependencies = {}): Promise<Found> {
  return [await findStorageFault(env, dependencies), await findForeignDid(env)]
}

async function findStorageFault(
  env: ServerEnv,
  { usedPercent = askDisk }: MachineDependencies
): Promise<Found[number]> {
  const remedy = 'free space there, or DATA_DIR=<folder with space that the user of the servers may write to>'
  for (const folder of [env.DATA_DIR, getDataFolder(env)].filter((one) => existsSync(one))) {
    try {
      writeProbe(folder)
    } catch (error) {
      return change('data-dir', `${folder} cannot be written to: ${describeReason(error)}`, remedy)
    }
  }
  // Content is not on this disk if a database is configured.
  if (env.DATABASE_URL !== undefined) return false
  const percent = Math.floor(await usedPercent(env.DATA_DIR).catch(() => 0))
  const isFull = percent >= MAX_USED_PERCENT
  return isFull && change('disk-full', `The disk of ${env.DATA_DIR} (DATA_DIR) is ${percent} % full`, remedy)
}

/** Reads the disk usage of a folder, or of the existing folder in which it will be created. */
function askDisk(folder: string): ReturnType<UsedPercent> {
  const isThere = existsSync(folder) || dirname(folder) === folder
  return isThere ? createDiskUsage(folder)() : askDisk(dirname(folder))
}

/** Writes a file as large as a block, so that a full disk shows, and deletes it. */
function writeProbe(folder: string): void {
  const file = join(folder, `doctor-${process.pid}.tmp`)
  try {
    writeFileSync(file, Buffer.alloc(4_096), { mode: 0o600, flush: true })
  } finally {
    rmSync(file, { force: true })
  }
}

/** Finds a SERVICE_DID that names the address of another key. DIDs of other methods name none. */
async function findForeignDid(env: ServerEnv): Promise<Finding | false> {
  const { SERVICE_DID: given, NETWORK_NAME = 'rsk' } = env
  const network = toNetwork(NETWORK_NAME)
  const key = findPrivateKey(env)
  if (given === undefined || key === undefined || !isEthrDid(given)) return false
  const named = networkOfDid(given) ?? network
  const own = await didOfPrivateKey(key, named)
  if (addressOfDid(given, await loadCurve()) === addressOfDid(own)) return false
  const what = `SERVICE_DID is not that of PRIVATE_KEY, which is ${own}`
  const isDerived = named === network
  return change('service-did', what, isDerived ? 'remove SERVICE_DID: it follows from the key' : `SERVICE_DID=${own}`)
}
