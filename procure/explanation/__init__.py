"""Why does a package wait as it does?"""
