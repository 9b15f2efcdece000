import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** What OpenStack Swift is made of, as Debian packages it; its S3 API asks for memcached. */
export const SWIFT_PACKAGES = 'swift-proxy swift-object swift-container swift-account memcached'

const PROGRAMS = ['swift-proxy', 'swift-object', 'swift-container', 'swift-account']
  .map((name) => `${name}-server`)
  .concat('swift-ring-builder', 'memcached')

/** Whether OpenStack Swift is on the `PATH`, so that object storage is tested on a real engine as well. */
export function hasSwift({ PATH: path = '' } = process.env) {
  const folders = path.split(delimiter)
  return PROGRAMS.every((name) => folders.some((folder) => existsSync(join(folder, name))))
}
