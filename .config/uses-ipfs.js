import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

/**
 * Whether a server is to use an IPFS node, according to the environment or `.env` of the working directory, which the
 * servers read as well. A variable of the environment replaces that of the file.
 */
export function usesIpfs(environment = process.env, file = '.env') {
  return Object.entries({ ...readEnvFile(file), ...environment }).some(
    ([name, value]) => /^(?:RELAY_|VAULT_)?IPFS_API_URL(?:_FILE)?$/.test(name) && value !== ''
  )
}

function readEnvFile(file) {
  try {
    return parseEnv(readFileSync(file, 'utf8'))
  } catch {
    // The servers report a file that cannot be read.
    return {}
  }
}
