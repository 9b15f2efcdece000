import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const rootDir = fileURLToPath(new URL('..', import.meta.url))
/** Folder of the prepared pages, which VitePress reads. */
export const pagesDir = join(rootDir, '.cache/site/pages')
